"""The row `errors`: what an op raises for a bad call, and how one without gradient refuses one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.spec import BadCall, Call, Limits, Spec, TensorCase
from trifold.verification.checks.contract import errors
from trifold.verification.outcomes import CheckFailed

DTYPES = [torch.float32, torch.complex64]


class Doubled(torch.autograd.Function):
    """An operator whose backward raises, as one without op.autograd does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("doubled has no gradient: ports/doubled.py states none")


def judge(dtype: torch.dtype, function: Any, error: type[Exception] = TypeError) -> None:
    call = Call((TensorCase((3,), dtype, seed=1),))

    def checked(x: Tensor) -> Any:
        if x.dtype != dtype:
            raise error(f"doubled: x must be {dtype}")
        return function(x)

    bad = BadCall("integers", lambda device: ([torch.ones(3, dtype=torch.int64)], {}), ("x",))
    spec = Spec(calls=lambda limits: st.just(call), bad_calls=[bad])
    errors(cell_here(checked, lambda x: 2 * x, spec, files="doubled", limits=Limits(100), differentiable=False))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_op_whose_backward_says_that_there_is_none_passes(dtype: torch.dtype) -> None:
    judge(dtype, Doubled.apply)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_that_has_a_gradient_unlike_its_spec_does_not(dtype: torch.dtype) -> None:
    with pytest.raises(CheckFailed, match="it has a gradient, unlike its spec"):
        judge(dtype, lambda x: 2 * x)


@pytest.mark.parametrize("error", [RuntimeError, TypeError, ValueError, IndexError, NotImplementedError])
def test_exceptions_that_torch_raises_for_bad_arguments_are_accepted(error: type[Exception]) -> None:
    judge(torch.float32, Doubled.apply, error)


@pytest.mark.parametrize("error", [KeyError, AttributeError, AssertionError])
def test_exceptions_of_a_mistake_in_the_op_are_not(error: type[Exception]) -> None:
    with pytest.raises(CheckFailed, match=f"integers: raises {error.__name__}, not RuntimeError"):
        judge(torch.float32, Doubled.apply, error)
