"""An argument that is a dtype, in which the reference returns its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.spec import Call, Limits, Spec, TensorCase
from trifold.verification.calls import Search
from trifold.verification.cell import in_dtype_of
from trifold.verification.checks import CHECKS
from trifold.verification.outcomes import CheckFailed

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    count = draw(st.integers(1, min(limits.elements, 300)))
    x = TensorCase((count,), draw(st.sampled_from(DTYPES)), seed=draw(st.integers(0, 9)))
    return Call((x, draw(st.sampled_from((None, *DTYPES)))))


def scaled(x: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    return (x * 1.7).to(out_dtype or x.dtype)


def _cut_off(x: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    """To four bits less than bfloat16 has, where the result is that."""
    exact = 1.7 * x.double()
    if (out_dtype or x.dtype) != torch.bfloat16:
        return exact.to(out_dtype or x.dtype)
    return (exact.to(torch.float32).view(torch.int32) & ~0xFFFFF).view(torch.float32).to(torch.bfloat16)


def _in_its_own_dtype(x: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    return scaled(x)


def _judge(function: Callable[..., Any]) -> None:
    spec = Spec(calls=_calls)
    cell = cell_here(
        function, scaled, spec, files="scaled", search=Search(60), limits=Limits(4000), differentiable=False
    )
    next(one for one in CHECKS if one.name == "values").run(cell)


def test_a_right_op_passes() -> None:
    _judge(scaled)


@pytest.mark.parametrize("wrong", [_cut_off, _in_its_own_dtype])
def test_a_wrong_op_is_found(wrong: Callable[..., Any]) -> None:
    with pytest.raises(CheckFailed):
        _judge(wrong)


def test_the_exact_reference_gets_the_wide_dtype() -> None:
    given = [torch.ones(1), torch.bfloat16, torch.complex64, torch.int8, torch.float8_e4m3fn, [torch.float32]]
    made, _ = in_dtype_of(given, {}, torch.float64)
    assert made[1:] == [torch.float64, torch.complex128, torch.int8, torch.float8_e4m3fn, [torch.float64]]
