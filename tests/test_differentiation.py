"""What gradients are compared with, for calls unlike most."""

from __future__ import annotations

from typing import Any

import torch

from tests.drawn_specs import HereProcess
from tests.wrong.entry import GALLERY
from trifold.implementation import reference
from trifold.spec import Call, Limits, TensorCase
from trifold.spec.load import load_spec
from trifold.verification.cell import Cell, Remote, Search
from trifold.verification.checks.differentiation import RightGradients, gradient_scales


def _cell(op: str) -> Cell:
    files = GALLERY.op(op)
    right = reference(files)
    process: Any = HereProcess(right)
    remote = Remote("port", files, process, (op,), differentiable=True)
    return Cell(load_spec(files), remote, "cpu", right, Search(1), Limits(), lambda sample: None)


def test_a_call_of_integers_has_no_gradient_and_no_scale_of_one() -> None:
    """The spec of cumsum states the scale by the upstream gradient, which there is none of."""
    call = Call((TensorCase((2, 5), torch.int64, fill="exact"),))
    assert RightGradients.of(_cell("cumsum"), call, ()).scale == {}


def test_the_scale_of_a_softmax_whose_row_has_minus_inf_is_a_number() -> None:
    call = Call((TensorCase((3, 17), torch.float64, fill="masked", seed=3),))
    (scale,) = gradient_scales(_cell("softmax"), call, ((0,),))
    assert scale is not None
    assert bool(scale.isfinite().all())
    assert bool((call.arguments("cpu")[0][0] == -torch.inf).any())
