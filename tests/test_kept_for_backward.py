"""What an op keeps for backward must be the graph's own, not one for all calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.spec import Call, Limits, Spec, TensorCase
from trifold.verification.checks.contract import _keeps_what_is_saved
from trifold.verification.outcomes import CheckFailed


class _Scaled(torch.autograd.Function):
    last = 1.0

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, shared: bool) -> Tensor:
        ctx.factor, ctx.shared, _Scaled.last = factor, shared, factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0] * (_Scaled.last if ctx.shared else ctx.factor), None, None


@pytest.mark.parametrize("shared", [False, True])
def test_a_number_that_all_calls_share_changes_the_gradient_of_an_earlier_one(shared: bool) -> None:
    def scaled(x: Tensor, factor: float) -> Tensor:
        result: Tensor = _Scaled.apply(x, factor, shared)  # type: ignore[no-untyped-call]
        return result

    call = Call((TensorCase((3, 4), torch.float64), 0.5))
    spec = Spec(calls=lambda limits: st.just(call), smooth=[call])
    cell = cell_here(scaled, lambda x, factor: x * factor, spec, files="scaled", limits=Limits(100))
    if shared:
        with pytest.raises(CheckFailed, match="another call between forward and backward changes the gradient"):
            _keeps_what_is_saved(cell, call)
    else:
        _keeps_what_is_saved(cell, call)
