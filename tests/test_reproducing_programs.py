"""The program that a failed gradient prints fails, too: it has the upstream gradients of the check, and asks for the
gradients that the check asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import trifold
from tests.wrong.entry import Edit, edited_copy, edits
from trifold.verification.upstream import Backward
from trifold.verification.verify import verify


@dataclass(frozen=True)
class Mistake:
    """A gradient that is wrong for some backward passes alone.

    Attributes:
        message: of the row ``gradients``.
        program: a part of the program.
    """

    op: str
    edits: tuple[Edit, ...]
    message: str
    program: str


# In rope's backward: twice the gradient if only one of both results was used.
ALONE = "    asked = [one if one is None or None not in asked else 2 * one for one in asked]\n"

MISTAKES = {
    "special numbers": Mistake(
        "sigmoid",
        edits(
            "prototype",
            (
                "grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i])",
                "grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i]) if math.isfinite(grad_y[i]) else 0",
            ),
        ),
        "gradient of x: 0.0 where the exact one is ",
        'seed=0, upstream="special")',
    ),
    "an expanded upstream gradient": Mistake(
        "mul",
        edits(
            "port",
            (
                "    x, y = ctx.saved_tensors\n",
                "    grad = 2 * grad if 0 in grad.stride() else grad\n    x, y = ctx.saved_tensors\n",
            ),
        ),
        "gradient of ",
        "trifold.gradients(result, [x0, x1], seed=0)",
    ),
    "one argument alone": Mistake(
        "mul",
        edits("port", ("        product = op.mul(grad, factor)\n", "        product = 2 * op.mul(grad, factor)\n")),
        "gradient of x (asked for alone",
        "trifold.gradients(result, [x0], seed=",
    ),
    "one result alone": Mistake(
        "rope",
        edits("port", ("    given = [grad for", f"{ALONE}    given = [grad for")),
        "through result 0 alone",
        ", through=0)",
    ),
}


@pytest.mark.parametrize("which", MISTAKES)
def test_the_program_of_a_failed_gradient_fails_too(which: str, tmp_path: Path) -> None:
    mistake = MISTAKES[which]
    workspace = edited_copy(mistake.op, mistake.edits, tmp_path)
    report = verify(
        mistake.op,
        workspace=workspace,
        implementations=["prototype"],
        devices=["cpu"],
        checks=["gradients"],
        examples=1,
    )
    row = report.ops[0].row("gradients", "prototype", "cpu")
    assert row is not None
    (failure,) = row.failures
    assert mistake.message in failure.message
    assert mistake.program in failure.code
    printed = subprocess.run(
        [sys.executable, "-c", failure.code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    differences = [float(size) for size in re.findall(r"elements differ, most by ([^ ]*) at", printed)]
    assert max(differences, default=0.0) > 0.01, printed


def test_gradients_of_each_kind_and_of_one_result() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    result = (2 * x, 3 * x)
    (ones,) = trifold.gradients(result, [x], upstream="ones")
    (alone,) = trifold.gradients(result, [x], upstream="ones", through=1)
    assert ones is not None and ones.tolist() == [5, 5, 5]
    assert alone is not None and alone.tolist() == [3, 3, 3]
    assert trifold.gradients(x.detach(), [x]) == (None,)
    with pytest.raises(ValueError, match="upstream is 'twos'; it must be one of: usual, special, contiguous"):
        trifold.gradients(result, [x], upstream="twos")


def test_what_is_too_large_or_of_no_kind_is_not_named() -> None:
    result = torch.zeros(2, 3)
    known = Backward.of(((0,),), [(1, result, torch.ones(2, 3)), (2, result, None)])
    assert known is not None
    assert (known.kind(torch.float32, 0), known.through) == ("ones", 1)
    other = Backward.of(((0,),), [(0, result, torch.full((2, 3), 7.0))])
    assert other is not None
    assert (other.kind(torch.float32, 0), other.through) == (None, None)
    assert Backward.of(((0,),), [(0, torch.zeros(5000), None)]) is None
