"""An op in a process of its own: what it finds there, what travels, and what becomes of one that does not behave."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.wrong.entry import copy_of_gallery
from trifold.cells import CellName
from trifold.isolation import nursery
from trifold.isolation.tensors import Packed, Unpacking
from trifold.verification.job import Job
from trifold.verification.remote import OpProcess
from trifold.verification.remote_errors import OpDied
from trifold.verification.report import Row
from trifold.verification.runner import run_cell
from trifold.verification.worker import _starter
from trifold.workspace import Workspace

ADD = CellName("add", "prototype", "cpu")
# What the judge consists of: an op that has it could change it, or ask it.
FOREIGN = """
def foreign():
    import sys
    of_trifold = ("trifold.verification", "trifold.spec", "trifold_reference_", "trifold_spec_", "trifold_verify_")
    names = (*of_trifold, "hypothesis")
    found = sorted(name for name in sys.modules if name.startswith(names))
    assert "trifold.isolation.server" in sys.modules or sys.argv[0].endswith("server.py")
    raise RuntimeError(f"foreign modules: {found}")
"""
# The public function of ``add`` with one argument more: what to do instead.
PROBES = (
    FOREIGN
    + """
import os
import sys
import time

import torch

kept = torch.zeros(4)
stolen = []


class Odd(ValueError):
    pass


def call_reference(x, y):
    for module in list(sys.modules.values()):
        if (getattr(module, "__file__", None) or "").endswith("prototypes/add.py"):
            return module.reference(x, y)
    raise KeyError("no prototype")


def raise_odd(x, y):
    raise Odd("odd words")


def change(x, y):
    x.mul_(2)
    return x + y


def keep(x, y):
    kept.copy_(x)
    return kept


def overwrite(x, y):
    kept.add_(1)
    return x + y


def steal(x, y):
    made = x + y
    stolen.append(made)
    return made


def steal_argument(x, y):
    stolen.append(x)
    return x + y


def exit_with_system_exit(x, y):
    raise SystemExit(3)


def write_to_sockets(x, y):
    import stat

    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                os.write(number, b"\\x02\\0\\0\\0\\0\\0\\0\\0{}")
        except OSError:
            pass
    return x + y


DOES = {
    "": lambda x, y: op.add(x, y),
    "foreign": lambda x, y: foreign(),
    "reference": call_reference,
    "odd": raise_odd,
    "argument": lambda x, y: x,
    "view": lambda x, y: (x[1:], x + y, 7, "seven"),
    "two views": lambda x, y: (lambda made: (made[:2], made[2:]))(x + y),
    "keep": keep,
    "overwrite": overwrite,
    "change": change,
    "steal": steal,
    "steal argument": steal_argument,
    "stolen": lambda x, y: stolen.pop(),
    "cube": lambda x, y: x**3 * y,
    "draw": lambda x, y: torch.rand(4),
    "draw with": lambda x, generator: torch.rand(4, generator=generator),
    "mode": lambda x, y: (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    "integers": lambda x, y: (x > 0, x),
    "subclass": lambda x, y: torch.nn.Parameter(x),
    "sleep": lambda x, y: time.sleep(60),
    "exit": lambda x, y: os._exit(0),
    "system exit": exit_with_system_exit,
    "write": write_to_sockets,
}


def add(x, y, do=""):
    return DOES[do](x, y)


"""
)


def _replace_function(workspace: Workspace, text: str) -> None:
    """Put ``text`` in place of the public function of ``add``."""
    port = workspace.files("add").port
    before, _, after = port.read_text(encoding="utf-8").partition("def add(")
    port.write_text(before + text + after[after.index("op = wire(") :], encoding="utf-8")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpProcess]:
    workspace = copy_of_gallery("add", tmp_path_factory.mktemp("workspace"))
    _replace_function(workspace, PROBES)
    made = OpProcess(_starter(Job(str(workspace.root), ADD)), timeout=20)
    made.load(build=True)
    yield made
    made.close()


@pytest.fixture
def x() -> Tensor:
    return torch.tensor([1.0, 2.0, 3.0, 4.0])


@pytest.fixture
def y() -> Tensor:
    return torch.tensor([0.5, 0.25, 2.0, -1.0])


# ----------------------------------------------------------------------------------------------- what an op finds


def test_the_op_runs_there(process: OpProcess, x: Tensor, y: Tensor) -> None:
    assert torch.equal(process.function(x, y), x + y)


def test_a_second_process_runs_under_a_tool_and_ends_with_its_context(
    process: OpProcess, x: Tensor, y: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, announced = tmp_path / "tool", list[int]()
    tool.write_text('#!/bin/sh\nout=$1; shift\n"$@"\necho "$TOLD" > "$out"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(process, "announced", announced.append)
    with process.another([str(tool), str(tmp_path / "out")], {"TOLD": "after it"}, slower=2.0) as other:
        assert torch.equal(other.function(x, y), x + y)
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").read_text() == "after it\n"
    assert process._process is not None
    assert announced[1:] == [process._process.pid]  # which is ended with the judge
    assert torch.equal(process.function(x, y), x + y)


def test_nothing_of_the_judge_is_there(process: OpProcess, x: Tensor, y: Tensor) -> None:
    with pytest.raises(RuntimeError, match=r"^foreign modules: \[\]$"):
        process.function(x, y, "foreign")


def test_the_reference_is_not_there(process: OpProcess, x: Tensor, y: Tensor) -> None:
    with pytest.raises(RuntimeError, match="the reference is the judge's: it cannot be called where the op runs"):
        process.function(x, y, "reference")


def test_nothing_of_the_judge_is_in_a_process_that_the_nursery_forks(tmp_path: Path) -> None:
    workspace = copy_of_gallery("add", tmp_path)
    _replace_function(workspace, FOREIGN + "\n\ndef add(x, y):\n    foreign()\n\n\n")
    spec = workspace.files("add").spec
    spec.write_text(
        "import torch\nfrom trifold.spec import Property, Spec, elementwise, elementwise_smooth\n\n\n"
        "def _foreign(function, device):\n"
        "    from trifold.isolation import nursery\n"
        "    assert nursery._ops, 'this worker was forked'\n"
        "    try:\n        function(torch.ones(2), torch.ones(2))\n"
        "    except RuntimeError as error:\n        assert str(error) == 'foreign modules: []', str(error)\n"
        "    else:\n        raise AssertionError('nothing was raised')\n\n\n"
        "foreign = Property('foreign', _foreign, 'why')\n"
        "spec = Spec(calls=elementwise(2), smooth=elementwise_smooth(2), properties=[foreign])\n",
        encoding="utf-8",
    )
    with nursery.opened():
        (row,) = run_cell(Job(str(workspace.root), ADD, ("property: foreign",)), timeout=60)
    assert row.outcome == "passed", row.failures


# ------------------------------------------------------------------------------------------------ what comes back


def test_a_result_that_is_an_argument_is_in_its_memory_here_too(process: OpProcess, x: Tensor, y: Tensor) -> None:
    result = process.function(x, y, "argument")
    assert result.data_ptr() == x.data_ptr()
    assert torch.equal(result, x)


def test_results_that_are_views_and_no_tensors(process: OpProcess, x: Tensor, y: Tensor) -> None:
    view, total, seven, word = process.function(x, y, "view")
    assert (view.data_ptr(), view.storage_offset()) == (x[1:].data_ptr(), 1)
    assert torch.equal(total, x + y)
    assert total.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert (seven, word) == (7, "seven")


def test_two_results_in_one_memory(process: OpProcess, x: Tensor, y: Tensor) -> None:
    first, second = process.function(x, y, "two views")
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert torch.equal(torch.cat([first, second]), x + y)


def test_a_result_in_the_memory_of_an_earlier_one(process: OpProcess, x: Tensor, y: Tensor) -> None:
    first = process.function(x, y, "keep")
    second = process.function(x, y, "keep")
    assert first.data_ptr() == second.data_ptr()
    assert process.function(x, y).data_ptr() != first.data_ptr()


def test_a_result_that_a_later_call_overwrites(process: OpProcess, x: Tensor, y: Tensor) -> None:
    others = [process.function(x, y), process.function(2 * x, y)]
    held = process.function(x, y, "keep")
    assert process.changed_since([*others, held]) == []
    process.function(x, y, "overwrite")
    assert torch.equal(held, x), "that call has told nothing of it"
    assert process.changed_since([*others, held]) == [2]


def test_results_in_one_memory_are_compared_each(process: OpProcess, x: Tensor, y: Tensor) -> None:
    views = process.function(x, y, "two views")
    assert process.changed_since(views) == []
    results = [process.function(x, y, "keep"), process.function(x, y, "keep")]
    assert process.changed_since(results) == []
    process.function(x, y, "overwrite")
    assert process.changed_since(results) == [0, 1]


def test_a_result_that_a_later_call_returns(process: OpProcess, x: Tensor, y: Tensor) -> None:
    made = process.function(x, y, "steal")
    assert process.function(x, y, "stolen").data_ptr() == made.data_ptr()


@pytest.mark.parametrize("what", ["steal", "steal argument"])
def test_what_is_released_is_filled_with_nan(what: str, process: OpProcess, x: Tensor, y: Tensor) -> None:
    assert not process.function(x, y, what).isnan().any()
    gc.collect()
    assert process.function(x, y, "stolen").isnan().all()


def test_an_argument_that_the_call_changes_is_changed_here(process: OpProcess, x: Tensor, y: Tensor) -> None:
    whole = torch.cat([x, x])
    part = whole[::2]
    assert process.function(part, y, "change").tolist() == (2 * torch.cat([x, x])[::2] + y).tolist()
    assert whole.tolist() == [2.0, 2.0, 6.0, 4.0, 2.0, 2.0, 6.0, 4.0]
    assert y.tolist() == [0.5, 0.25, 2.0, -1.0]


# ------------------------------------------------------------------------------------------- autograd, randomness


def test_gradients_and_second_derivatives(process: OpProcess, x: Tensor, y: Tensor) -> None:
    def cube(x: Tensor, y: Tensor) -> Tensor:
        made: Tensor = process.function(x, y, "cube")
        return made

    given = [value.double().requires_grad_() for value in (x, y)]
    outer = torch.tensor([1.0, -1.0, 2.0, 0.0], dtype=torch.float64)
    first = torch.autograd.grad(cube(*given), given, outer, create_graph=True)
    assert torch.equal(first[0], outer * 3 * given[0] ** 2 * given[1])
    assert torch.equal(first[1], outer * given[0] ** 3)
    second = torch.autograd.grad(first[0].sum(), given)
    assert torch.allclose(second[0], outer * 6 * given[0] * given[1])
    assert torch.allclose(second[1], outer * 3 * given[0] ** 2)
    assert torch.autograd.gradcheck(cube, given)
    assert torch.autograd.gradgradcheck(cube, given)


def test_a_graph_can_be_used_twice_where_it_is_kept(process: OpProcess, x: Tensor, y: Tensor) -> None:
    x.requires_grad_()
    made = process.function(x, y, "cube")
    once = torch.autograd.grad(made.sum(), x, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(made.sum(), x)[0], once)


def test_a_result_without_a_gradient_beside_one_that_has(process: OpProcess, x: Tensor, y: Tensor) -> None:
    x.requires_grad_()
    positive, same = process.function(x, y, "integers")
    assert (positive.dtype, positive.requires_grad) == (torch.bool, False)
    assert torch.autograd.grad(same.sum(), x)[0].tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("mode", "holds"),
    [(torch.enable_grad, (True, False)), (torch.no_grad, (False, False)), (torch.inference_mode, (False, True))],
)
def test_the_mode_of_autograd(
    mode: Callable[[], Any], holds: tuple[bool, bool], process: OpProcess, x: Tensor, y: Tensor
) -> None:
    with mode():
        assert process.function(x, y, "mode") == holds


def test_a_generator_is_advanced_here(process: OpProcess, x: Tensor) -> None:
    ours, theirs = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    for _ in range(2):
        assert torch.equal(process.function(x, theirs, "draw with"), torch.rand(4, generator=ours))
    assert torch.equal(ours.get_state(), theirs.get_state())


def test_the_default_generator_is_advanced_here(process: OpProcess, x: Tensor, y: Tensor) -> None:
    torch.manual_seed(3)
    expected = torch.rand(12)
    torch.manual_seed(3)
    drawn = [process.function(x, y, "draw"), torch.rand(4), process.function(x, y, "draw")]
    assert torch.equal(torch.cat(drawn), expected)


# ---------------------------------------------------------------------------------------------------------- mistakes


def test_exceptions_keep_their_names(process: OpProcess, x: Tensor, y: Tensor) -> None:
    with pytest.raises(ValueError, match=r"^odd words$") as caught:
        process.function(x, y, "odd")
    assert type(caught.value).__name__ == "Odd"
    with pytest.raises(TypeError, match="the result is a Parameter, a subclass of"):
        process.function(x, y, "subclass")
    with pytest.raises(TypeError, match="a set cannot be sent"):
        process.function(x, {1})


@pytest.mark.parametrize(
    ("do", "says"),
    [
        ("exit", "^the process ended with status 0$"),
        ("write", "^the op's process wrote to the judge's connection what is no answer$"),
        ("sleep", "^no answer for 1 s: the kernel hangs, or is too slow for --timeout 1$"),
    ],
)
def test_after_a_death_the_next_call_has_another_process(
    do: str, says: str, process: OpProcess, x: Tensor, y: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.function(x, y)
    if do == "sleep":
        monkeypatch.setattr(process, "timeout", 1.0)
    with pytest.raises(OpDied, match=says):
        process.function(x, y, do)
    monkeypatch.undo()
    process.load(build=True)
    assert torch.equal(process.function(x, y), x + y)


def test_what_lived_in_a_process_that_died_has_no_gradient_any_more(process: OpProcess, x: Tensor, y: Tensor) -> None:
    x.requires_grad_()
    made = process.function(x, y, "cube")
    with pytest.raises(OpDied):
        process.function(x, y, "exit")
    with pytest.raises(KeyError):
        torch.autograd.grad(made.sum(), x)


ENDS = {
    "os._exit(0)": "the process ended with status 0",
    "os.kill(os.getpid(), 11)": "the process died of SIGSEGV",
    "raise SystemExit(0)": "raises SystemExit, not RuntimeError, TypeError or ValueError: 0",
    "[os.write(n, b'{}' * 8) for n in range(3, 64) if is_socket(n)]": "wrote to the judge's connection",
}


def rows_of(tmp_path: Path, end: str, *checks: str) -> list[Row]:
    """Of an op whose function does that."""
    workspace = copy_of_gallery("add", tmp_path)
    text = f"""
import os
import stat


def is_socket(number):
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


def add(x, y):
    {end}
    raise ValueError("x, y, int64, float64, shape, dtype")


"""
    _replace_function(workspace, text)
    return run_cell(Job(str(workspace.root), ADD, checks, examples=1), timeout=60)


@pytest.mark.parametrize("end", ENDS)
def test_an_op_that_ends_its_process_has_failed(end: str, tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, end, "errors")
    assert row.outcome == "failed"
    assert ENDS[end] in row.failures[0].message


def test_after_three_deaths_the_other_checks_are_given_up(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "os._exit(0)", "values", "rounding", "errors", "repeatable", "findings")
    assert [(row.check, row.outcome) for row in rows] == [
        ("values", "failed"),
        ("rounding", "failed"),
        ("errors", "failed"),
        ("other checks", "not run"),
    ]
    assert rows[-1].reason == "given up after the op's process died in: values, rounding, errors"


# ------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [1, None, "two"],
        (1.5, float("inf")),
        torch.bfloat16,
        torch.device("cuda", 1),
        [torch.int8, torch.device("cpu")],
        [],
        {"sizes": [[1], [2, 3]]},
    ],
    ids=str,
)
def test_a_value_travels_as_it_is(value: Any) -> None:
    sent = json.loads(json.dumps(Packed().pack(value)))
    made = Unpacking(lambda number: torch.UntypedStorage(0)).value(sent)
    assert type(made) is type(value)
    assert made == value


def test_a_size_travels_as_a_tuple() -> None:
    sent = json.loads(json.dumps(Packed().pack(torch.zeros(2, 3).shape)))
    assert Unpacking(lambda number: torch.UntypedStorage(0)).value(sent) == (2, 3)


def test_tensors_in_lists_share_what_they_share() -> None:
    x = torch.arange(4.0)
    packed = Packed()
    sent = json.loads(json.dumps(packed.pack([x, [x[1:], None], x])))
    assert len(packed.owners) == 1
    first, (view, nothing), again = Unpacking(lambda number: x.clone().untyped_storage()).value(sent)
    assert again is first
    assert nothing is None
    assert view.tolist() == [1, 2, 3]


# --------------------------------------------------------------------------------------------------------- on a GPU


_LOSES_THE_GPU = """
def _lose_the_gpu(x, y):
    from numba import cuda

    @cuda.jit
    def kernel(out):
        out[2**40] = 1

    kernel[1, 1](x)
    return x + y


DOES["lose the gpu"] = _lose_the_gpu


"""


@pytest.fixture
def on_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpProcess]:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    workspace = copy_of_gallery("add", tmp_path)
    _replace_function(workspace, PROBES + _LOSES_THE_GPU)
    name = CellName("add", "port", "cuda")
    made = OpProcess(_starter(Job(str(workspace.root), name)), timeout=120, device="cuda")
    made.load(build=False)
    yield made
    made.close()


@pytest.mark.gpu
def test_large_tensors_stay_on_the_gpu(on_gpu: OpProcess) -> None:
    x = torch.randn(2**24 + 3, device="cuda")
    assert on_gpu._open().outgoing.on_gpu, "memory of one process cannot be mapped by the other"
    made = on_gpu.function(x, x, "")
    assert torch.equal(made, x + x)
    again = on_gpu.function(x, made, "change")  # which multiplies x by 2
    assert torch.equal(x, made), "an argument has what the call left there"
    assert torch.equal(again, 2 * made)
    on_gpu.settle()
    assert torch.equal(on_gpu.function(made, made, ""), 2 * made)


@pytest.mark.gpu
def test_a_fault_on_the_gpu_ends_the_process_and_the_next_one_works(on_gpu: OpProcess) -> None:
    x = torch.ones(8, device="cuda")
    with pytest.raises(OpDied, match="illegal memory access"):
        on_gpu.function(x, x, "lose the gpu")
    assert on_gpu.deaths == 1
    assert torch.equal(on_gpu.function(x, x, ""), x + x)


@pytest.mark.gpu
def test_numba_compiles_a_kernel_for_a_gpu_once_for_all_processes_of_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = tmp_path / "compiled"
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(compiled))
    x = torch.randn(100, device="cuda")
    starter = _starter(Job(str(copy_of_gallery("add", tmp_path).root), CellName("add", "prototype", "cuda")))
    kept: list[dict[Path, int]] = []
    for _ in range(2):
        process = OpProcess(starter, timeout=120, device="cuda")
        process.load(build=False)
        assert torch.equal(process.function(x, x), x + x)
        process.close()
        kept.append({path: path.stat().st_mtime_ns for path in compiled.rglob("*.nbc")})
    assert kept[0]
    assert kept[0] == kept[1]
