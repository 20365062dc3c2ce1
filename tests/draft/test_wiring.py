"""``ports/OP.py`` as it is drafted: schema, fakes and gradient of the launch functions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trifold
from trifold.draft import DraftError
from trifold.draft.wiring import DraftedPort, draft_port
from trifold.errors import PrototypeError
from trifold.workspace import import_file

ROOT = Path(__file__).parents[2]
BEGIN = """
from torch import Tensor
import torch
from trifold.prototype import launch, output, row_output
"""

SIGMOID = '''"""sigmoid: the operator."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define("sigmoid(Tensor x) -> Tensor", fake=elementwise_output)
    op.define("sigmoid_backward(Tensor grad_y, Tensor y) -> Tensor", fake=elementwise_output)
    op.autograd("sigmoid", save=["result"], backward=_backward)


def _backward(ctx, grad_y):  # type: ignore[no-untyped-def]
    (y,) = ctx.saved_tensors
    grad_x = op.sigmoid_backward(grad_y, y)
    return grad_x


def sigmoid(x: Tensor) -> Tensor:
    """What ``reference`` of prototypes/sigmoid.py computes."""
    result: Tensor = op.sigmoid(x)
    return result


op = wire(__name__, register)
'''


def of_gallery(op: str) -> DraftedPort:
    return draft_port(import_file(ROOT / "prototypes" / f"{op}.py", f"wired_{op}"), op)


def of_text(text: str, folder: Path) -> DraftedPort:
    path = folder / "f.py"
    path.write_text(BEGIN + text, encoding="utf-8")
    return draft_port(import_file(path, f"wired_{folder.name}"), "f")


def test_schema_fake_and_gradient_follow_from_names() -> None:
    assert of_gallery("sigmoid") == DraftedPort(SIGMOID)


def test_a_fake_is_what_the_results_are_made_of() -> None:
    text = of_gallery("topk").text
    assert "def _with_columns(" in text  # a helper of the prototype, with what it is for
    assert "    shape = _with_columns(x, k)\n" in text
    assert "launch" not in text
    assert "RuntimeError" not in text


def test_a_parameter_named_op_is_not_taken_for_the_operators(tmp_path: Path) -> None:
    drafted = of_text(
        """
def f(x: Tensor, op: str) -> Tensor:
    y = torch.empty_like(x)
    launch(None, 1, 1, x, output(y))
    return y


def f_backward(grad: Tensor, x: Tensor, op: str) -> Tensor:
    grad_x = torch.empty_like(grad)
    launch(None, 1, 1, grad, output(grad_x))
    return grad_x
""",
        tmp_path,
    )
    assert "    result: Tensor = _operators.f(x, op)\n" in drafted.text
    assert "    grad_x = _operators.f_backward(grad, x, op)\n" in drafted.text
    assert drafted.text.endswith("op = wire(__name__, register)\n_operators = op\n")


@pytest.mark.parametrize(
    ("op", "remark"),
    [
        ("rms_norm", "rms_norm_backward's parameter parameters is no parameter, no result and no size in rms_norm"),
        ("histogram", "there is no function histogram_backward"),
    ],
)
def test_where_names_do_not_say_the_gradient_it_is_not_stated(op: str, remark: str) -> None:
    drafted = of_gallery(op)
    assert drafted.remarks[0] == f"no gradient is stated: {remark}"
    assert f"# No gradient is stated: {remark}.\n" in drafted.text
    assert "autograd" not in drafted.text


def test_a_schema_that_is_too_long_for_a_line_is_several_strings(tmp_path: Path) -> None:
    names = [f"argument_{number}" for number in range(12)]
    text = f"def f(x: Tensor, {', '.join(f'{each}: float' for each in names)}) -> Tensor:\n    return x"
    drafted = of_text(text, tmp_path).text
    assert max(map(len, drafted.splitlines())) <= 120
    assert f"f(Tensor x, {', '.join(f'float {each}' for each in names)}) -> Tensor" in drafted.replace(
        '"\n        "', ""
    )


def test_arguments_that_are_passed_to_output_are_written(tmp_path: Path) -> None:
    text = "def f(x: Tensor, out: Tensor | None) -> None:\n    launch(k, 1, x, output(rows(out)[0]), output(x))"
    assert 'op.define("f(Tensor(a!) x, Tensor(b!)? out) -> ()", fake=lambda *_: None)' in of_text(text, tmp_path).text


def test_upstream_gradients_come_to_the_results_that_they_are_named_after(tmp_path: Path) -> None:
    drafted = of_text(
        """
def f(x: Tensor, n: int, y: Tensor) -> tuple[Tensor, Tensor]:
    low, high = row_output(x), row_output(y)
    return low, high

def f_backward(grad_high: Tensor, n: int, low: Tensor) -> tuple[Tensor, Tensor]:
    grad_y, grad_x = row_output(low), row_output(low)
    return grad_y, grad_x
""",
        tmp_path,
    )
    assert 'op.autograd("f", save=lambda x, n, y, results: (results[0], n), backward=_backward)' in drafted.text
    assert (
        "def _backward(ctx, _, grad_high):  # type: ignore[no-untyped-def]\n"
        "    (low,) = ctx.saved_tensors\n"
        "    (n,) = ctx.constants\n"
        "    grad_y, grad_x = op.f_backward(grad_high, n, low)\n"
        "    return grad_x, None, grad_y\n"
    ) in drafted.text


def test_the_types_of_arguments_are_those_of_schemas_and_are_imported(tmp_path: Path) -> None:
    text = of_text(
        "from collections.abc import Sequence\nfrom typing import Literal\nMode = Literal['a', 'b']\n"
        "def f(x: Tensor, mode: Mode, sizes: Sequence[int], others: tuple[int, ...]) -> Tensor:\n"
        "    y = row_output(x)\n    launch(None, 1, output(y))\n    return y\n",
        tmp_path,
    ).text
    assert "f(Tensor x, str mode, int[] sizes, int[] others) -> Tensor" in text
    assert "from collections.abc import Sequence\n" in text
    assert "import typing\n" in text and "Mode = typing.Literal['a', 'b']\n" in text
    assert "def f(x: Tensor, mode: Mode, sizes: Sequence[int], others: tuple[int, ...]) -> Tensor:" in text


def test_sizes_that_the_forward_function_reads_are_saved_for_the_gradient(tmp_path: Path) -> None:
    text = of_text(
        "def f(x: Tensor, index: Tensor, times: int) -> Tensor:\n"
        "    rows, columns = x.shape\n    padded = max(rows, 1) * times\n    sizes = x.shape[1:]\n"
        "    y = x.new_empty(index.numel(), columns)\n    launch(None, 1, output(y))\n    return y\n"
        "def f_backward(grad_y: Tensor, index: Tensor, rows: int, padded: int, sizes: list[int]) -> Tensor:\n"
        "    grad_x = grad_y.new_empty(rows, *sizes)\n    launch(None, 1, output(grad_x))\n    return grad_x\n",
        tmp_path,
    ).text
    assert "(index, x.shape[0], max(x.shape[0], 1) * times, x.shape[1:])" in text
    assert "rows, padded, sizes = ctx.constants" in text
    assert "grad_x = op.f_backward(grad_y, index, rows, padded, sizes)" in text


@pytest.mark.parametrize(
    "assigned", ["rows = x.sum()", "rows = x.shape[0]; rows = 2 * rows", "x = x.T; rows = x.shape[0]"]
)
def test_what_is_no_size_of_an_argument_is_not_saved(assigned: str, tmp_path: Path) -> None:
    of_f = of_text(
        f"def f(x: Tensor) -> Tensor:\n    {assigned}\n    y = row_output(x)\n"
        "    launch(None, 1, output(y))\n    return y\n"
        "def f_backward(grad_y: Tensor, rows: int) -> Tensor:\n"
        "    grad_x = row_output(grad_y)\n    launch(None, rows, output(grad_x))\n    return grad_x\n",
        tmp_path,
    )
    assert "f_backward's parameter rows is no parameter, no result and no size in f" in of_f.remarks[0]


def test_of_a_helper_that_launches_the_fake_has_what_its_result_is_made_of(tmp_path: Path) -> None:
    drafted = of_text(
        """
def f(x: Tensor, n: int) -> Tensor:
    y = _turned(x, n)
    return y

def _turned(x: Tensor, n: int):
    if n < 0:
        raise RuntimeError("f: n must not be negative")
    out = row_output(x)
    launch(None, n, x, output(out))
    return out
""",
        tmp_path,
    )
    assert "fake=_turned)" in drafted.text
    assert ("\ndef _turned(x: Tensor, n: int):\n    out = row_output(x)\n    return out\n") in drafted.text
    assert "launch" not in drafted.text


def test_a_loop_that_ends_early_is_in_the_fake_unless_a_tensor_ends_it(tmp_path: Path) -> None:
    loop = """
def f(x: Tensor, n: int) -> Tensor:
    a, b, left = x.clone(), x.clone(), n
    for turn in range(n):
        launch(k, 1, a, output(b))
        a, b = b, a
        if {test}:
            break
        left -= turn
    return {result}
"""
    kept = of_text(loop.format(test="left < 3", result="a"), tmp_path).text
    assert "        a, b = (b, a)\n        if left < 3:\n            break\n        left -= turn\n    return a" in kept
    assert "break" not in of_text(loop.format(test="b[0].item() < 3", result="a"), tmp_path).text
    with pytest.raises(DraftError, match="numbers that are read from a tensor decide"):
        of_text(loop.format(test="b[0].item() < 3", result="a[:left]"), tmp_path)


_KEPT = """
def f(x: Tensor) -> Tensor:
    count = torch.zeros(1, dtype=torch.int64, device=x.device)
    launch(k, 1, x, output(count))
    {read}
    launch(k, 1, x, output(kept))
    return kept
"""


def test_a_size_that_is_a_number_of_a_tensor_is_open_in_the_fake(tmp_path: Path) -> None:
    expected = "fake=lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()))"
    for number in ("int(count.item())", "count.item()", "count.tolist()[0]"):
        drafted = of_text(_KEPT.format(read=f"kept = x.new_empty({number})"), tmp_path)
        assert expected in drafted.text
        assert "import torch\n" in drafted.text
        assert any("Spec(waits_for_gpu=...)" in remark for remark in drafted.remarks)
    named = of_text(_KEPT.format(read="n = int(count.item())\n    kept = x.new_empty((n, 2 * n))"), tmp_path).text
    assert "    n = torch.library.get_ctx().new_dynamic_size()\n    kept = x.new_empty((n, 2 * n))\n" in named


def test_a_number_of_a_tensor_that_decides_more_than_a_size_is_refused(tmp_path: Path) -> None:
    for read in (
        "n = int(count.item())\n    kept = x.new_empty(n if n > 8 else 8)",
        "n = count.item()\n    m = n + 1\n    kept = x\n    if m:\n        kept = x.new_empty(m)",
        "kept = x.new_empty(max(count.item(), 1))",
    ):
        with pytest.raises(DraftError, match="numbers that are read from a tensor decide"):
            of_text(_KEPT.format(read=read), tmp_path)


def test_a_gradient_of_an_argument_that_gets_none_is_refused(tmp_path: Path) -> None:
    drafted = of_text(
        """
def f(x: Tensor, n: int, table: Tensor) -> Tensor:
    y = row_output(x)
    return y

def f_backward(grad_y: Tensor, n: int, table: Tensor) -> Tensor:
    grad_x = row_output(grad_y)
    return grad_x
""",
        tmp_path,
    )
    assert "\nimport torch\n" in drafted.text
    assert (
        "    if torch.is_grad_enabled():\n"
        '        for name, value in (("table", table),):\n'
        '            if getattr(value, "requires_grad", False):\n'
        '                raise RuntimeError(f"f: {name} has no gradient here; pass {name}.detach()")\n'
        "    result: Tensor = op.f(x, n, table)\n"
    ) in drafted.text
    assert "is_grad_enabled" not in of_gallery("sigmoid").text


def test_an_optional_tensor_that_is_none_gets_no_gradient(tmp_path: Path) -> None:
    text = """
def reference(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return x


def f(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return x.new_empty(x.shape)


def f_backward(grad: Tensor, x: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    grad_x, grad_bias = grad.new_empty(grad.shape), grad.new_empty(0)
    return grad_x, grad_bias
"""
    assert "    return grad_x, grad_bias if ctx.needs_input_grad[1] else None\n" in of_text(text, tmp_path).text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "def f(x: Tensor, way: complex) -> Tensor:\n    return row_output(x)",
            "f's parameter way has no type of a schema",
        ),
        (
            "def f(x: Tensor) -> float:\n    return 1.0",
            "the result is not annotated as Tensor, a tuple or list of them, or None",
        ),
        ("def f(x: Tensor) -> Tensor:\n    launch(k, 1, x)", "f has a result, and no return"),
        ("def f(x: Tensor) -> None:\n    launch(k, 1, x)", "f returns nothing, and none of its arguments"),
        (
            "S = {1: torch.float32}\ndef f(x: Tensor) -> Tensor:\n    return x.new_empty(3, dtype=S[1])",
            "the results of f are made with S, which a port cannot have",
        ),
    ],
)
def test_what_is_no_operator_is_refused_at_its_line(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(DraftError, match=rf"f[.]py:\d+: {problem}"):
        of_text(text, tmp_path)


def test_a_prototype_without_the_ops_function_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrototypeError, match=r"prototypes/f[.]py has no function named f"):
        of_text("def f_backward(grad: Tensor) -> Tensor:\n    return grad", tmp_path)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.extended
def test_the_drafted_files_are_verified(tmp_path: Path) -> None:
    """A missing ports/OP.py is written, too, and left as it is once it is edited."""
    for folder in ("prototypes", "verify", "cuda_src", "ports"):
        (tmp_path / folder).mkdir()
    for folder in ("prototypes", "verify"):
        shutil.copy(ROOT / folder / "mul.py", tmp_path / folder)
    command = [sys.executable, "-m", "trifold", "draft", "mul", "--workspace", str(tmp_path)]

    def said() -> list[str]:
        return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True).stdout.splitlines()

    assert said() == ["wrote cuda_src/mul.cuh", "wrote cuda_src/mul.cu", "wrote ports/mul.py"]
    checks = ["values", "gradients", "opcheck", "fake"]
    report = trifold.verify("mul", workspace=tmp_path, devices=["cpu"], checks=checks, examples=3)
    assert {row.outcome for op in report.ops for row in op.rows} == {"passed"}

    port = tmp_path / "ports" / "mul.py"
    port.write_text(port.read_text(encoding="utf-8") + "\n# mine\n", encoding="utf-8")
    assert said() == ["wrote cuda_src/mul.cuh", "wrote cuda_src/mul.cu"]
    assert port.read_text(encoding="utf-8").endswith("# mine\n")


def test_a_gradient_made_by_the_launch_function_of_the_op_has_a_copy_of_it_as_its_fake(tmp_path: Path) -> None:
    drafted = of_text(
        """
def f(x: Tensor, value: float) -> Tensor:
    out = row_output(x)
    launch(None, 1, x, output(out), value)
    return out

def f_backward(grad: Tensor) -> Tensor:
    grad_x = f(grad, 0.0)
    return grad_x
""",
        tmp_path,
    )
    assert "fake=lambda grad: _f_fake(grad, 0.0))" in drafted.text
    assert "def _f_fake(x: Tensor, value: float) -> Tensor:\n    out = row_output(x)\n    return out\n" in drafted.text
    assert drafted.text.count("\ndef f(") == 1


def test_variables_of_the_public_function_do_not_have_the_names_of_its_parameters(tmp_path: Path) -> None:
    drafted = of_text(
        """
def f(x: Tensor, name: Tensor, value: float) -> Tensor:
    out = row_output(x)
    return out

def f_backward(grad: Tensor, name: Tensor) -> Tensor:
    grad_x = row_output(grad)
    return grad_x
""",
        tmp_path,
    )
    assert 'for name_, value_ in (("name", name),):' in drafted.text
    assert 'raise RuntimeError(f"f: {name_} has no gradient here; pass {name_}.detach()")' in drafted.text


@pytest.mark.parametrize(
    ("results", "returned", "picked"),
    [("Tensor", "Tensor", "[0]"), ("tuple[Tensor, Tensor]", "tuple[Tensor, Tensor]", "[:2]")],
)
def test_without_a_gradient_the_public_function_returns_the_results_of_the_reference(
    results: str, returned: str, picked: str, tmp_path: Path
) -> None:
    drafted = of_text(
        f"""
def reference(x: Tensor) -> {results}:
    return x

def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, mean, rstd = row_output(x), row_output(x), row_output(x)
    return y, mean, rstd
""",
        tmp_path,
    )
    assert f"    result: {returned} = op.f(x){picked}\n    return result" in drafted.text


@pytest.mark.parametrize(("returned", "result"), [("x", "()"), ("y", "Tensor"), ("x, y", "(Tensor(a!), Tensor)")])
def test_an_argument_that_is_the_result_is_returned_by_the_function_and_not_by_the_operator(
    returned: str, result: str, tmp_path: Path
) -> None:
    hint = "tuple[Tensor, Tensor]" if "," in returned else "Tensor"
    text = f"""
def f(x: Tensor) -> {hint}:
    y = torch.empty_like(x)
    launch(None, 1, 1, output(x), output(y))
    return {returned}
"""
    drafted = of_text(text, tmp_path).text
    assert f'"f(Tensor(a!) x) -> {result}"' in drafted
    if returned == "x":
        assert "def f(x: Tensor) -> Tensor:" in drafted
        assert drafted.partition("def f(")[2].partition("op = wire")[0].rstrip().endswith("    op.f(x)\n    return x")
