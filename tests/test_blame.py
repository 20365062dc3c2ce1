"""An exception in one of an op's Python files is reported with the line that raised it, and with the form that did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.wrong.entry import Edit, copy_of_gallery, edited_copy, edits
from trifold.raised_at import raised_at
from trifold.verification.blame import is_of_check
from trifold.verification.report import Report
from trifold.verification.verify import verify
from trifold.workspace import import_file


@dataclass(frozen=True)
class Raising:
    """A mistake in one op, each in another one, so that they are verified together.

    Attributes:
        check: the row that fails.
        line: a part of the line that raises.
        message: what follows the place.
    """

    op: str
    edits: tuple[Edit, ...]
    check: str
    file: str
    line: str
    message: str


MISTAKES = {
    "the launch function": Raising(
        "add",
        edits("prototype", ("out = elementwise_output(x, y)", "out = elementwise_outptu(x, y)")),
        "values",
        "prototypes",
        "elementwise_outptu",
        "NameError: name 'elementwise_outptu' is not defined",
    ),
    "the kernel": Raising(
        "sigmoid",
        edits("prototype", ("y[i] = (e if v < 0 else ONE) / (ONE + e)", "y[i] = (e if v < 0 else ONE) / (ONE + ee)")),
        "values",
        "prototypes",
        "(ONE + ee)",
        "NameError: thread (0, 0, 0) of block (0, 0, 0): name 'ee' is not defined",
    ),
    "the public function, in a bad call": Raising(
        "swiglu",
        edits("port", ("out: Tensor = op.swiglu(", "out: Tensor = op.swiglu.nothing(")),
        "errors",
        "ports",
        "op.swiglu.nothing(",
        ": raises AttributeError, not RuntimeError, TypeError, ValueError or IndexError: ",
    ),
    "the port's backward": Raising(
        "rms_norm",
        edits("port", ("*ctx.saved_tensors, of_weight)", "*ctx.saved_tensros, of_weight)")),
        "gradients",
        "ports",
        "*ctx.saved_tensros, of_weight)",
        "AttributeError: 'rms_normBackward' object has no attribute 'saved_tensros'",
    ),
    "the reference's backward": Raising(
        "round_ste",
        edits("prototype", ("        return grad\n", "        return gard\n")),
        "gradients",
        "prototypes",
        "return gard",
        "the reference itself raised NameError: name 'gard' is not defined",
    ),
    "torch, in the reference's backward": Raising(
        "mul",
        edits("prototype", ("    return x * y\n", "    return x * y + 0 * __import__('torch').heaviside(x, y)\n")),
        "gradients",
        "prototypes",
        "def reference(",
        "the reference itself raised RuntimeError: derivative for aten::heaviside is not implemented",
    ),
}


@pytest.fixture(scope="module")
def raising(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One verification of all these ops."""
    root = tmp_path_factory.mktemp("raising")
    for mistake in MISTAKES.values():
        workspace = edited_copy(mistake.op, mistake.edits, root)
    checks = ["values", "gradients", "errors"]
    return verify(workspace=workspace, implementations=["prototype"], devices=["cpu"], checks=checks, examples=1)


@pytest.mark.parametrize("where", MISTAKES)
def test_an_exception_is_reported_with_the_users_line(where: str, raising: Report) -> None:
    mistake = MISTAKES[where]
    (op,) = (op for op in raising.ops if op.op == mistake.op)
    row = op.row(mistake.check, "prototype", "cpu")
    assert row is not None
    (failure,) = row.failures
    named = re.match(r"(?P<path>/[^:]*):(?P<line>[0-9]+): ", failure.message)
    assert named, failure.message
    path = Path(named["path"])
    assert (path.parent.name, path.name) == (mistake.file, f"{mistake.op}.py")
    assert mistake.line in path.read_text(encoding="utf-8").splitlines()[int(named["line"]) - 1]
    assert mistake.message in failure.message
    assert failure.sample


def test_a_line_that_cannot_be_compiled_is_named(tmp_path: Path) -> None:
    files = copy_of_gallery("add", tmp_path).op("add")
    files.port.write_text("def add(x, y):\n    print(x)\n    return x + y\n", encoding="utf-8")
    function: Any = torch.compile(import_file(files.port, "blamed").add, fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=r"print") as caught:
        function(torch.ones(2), torch.ones(2))
    assert raised_at(files, caught.value) == f"{files.port}:2"


def test_an_exception_of_the_verifications_own_code_is_not_the_ops(tmp_path: Path) -> None:
    files = copy_of_gallery("add", tmp_path).op("add")
    files.port.write_text("def add(x, y):\n    return x.nothing\n", encoding="utf-8")
    by_op = import_file(files.port, "blamed_own").add

    def reference(x: int, y: int) -> int:
        return x // y

    def of_check() -> None:
        torch.ones(2) + torch.ones(3)

    for call, own in ((lambda: by_op(1, 2), False), (lambda: reference(1, 0), False), (of_check, True)):
        with pytest.raises(Exception, match=r".") as caught:
            call()
        assert is_of_check(caught.value, files, reference) == own
    assert not is_of_check(None, files, reference)
