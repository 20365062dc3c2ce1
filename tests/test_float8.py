"""Results in float8 are equal to the reference's, as integers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.spec import Call, Limits, Result, Spec, TensorCase
from trifold.verification.calls import Search
from trifold.verification.checks import CHECKS
from trifold.verification.outcomes import CheckFailed
from trifold.verification.tolerance import exact_mismatch

E4M3 = torch.float8_e4m3fn


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    rows = draw(st.integers(1, min(limits.elements, 30)))
    return Call((TensorCase((rows, 9), seed=draw(st.integers(0, 9))),))


SPEC = Spec(calls=_calls, edges=[Call((TensorCase((200, 9), seed=10),))])


def _scale(x: Tensor) -> Tensor:
    return x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448


def quantized(x: Tensor) -> Tensor:
    return (x / _scale(x)).clamp(-448, 448).to(E4M3).contiguous()


def _cut_off(x: Tensor) -> Tensor:
    """Towards zero: of float32's fraction three bits are left."""
    bits = (x / _scale(x)).clamp(-448, 448).view(torch.int32) & ~0xFFFFF
    return bits.view(torch.float32).to(E4M3)


def _of_another_format(x: Tensor) -> Tensor:
    return (x / _scale(x)).clamp(-448, 448).to(torch.float8_e5m2).to(torch.float32).to(E4M3)


def _last_bit(x: Tensor) -> Tensor:
    made = quantized(x).view(torch.uint8)
    made[-1, -1] ^= 1
    return made.view(E4M3)


def _not_clamped(x: Tensor) -> Tensor:
    return (1.1 * x / _scale(x)).to(E4M3)


_ROWS = ("values", "sensitivity", "repeatable")


def _judge(function: Callable[..., Any], spec: Spec = SPEC, rows: tuple[str, ...] = _ROWS) -> None:
    search, limits = Search(8), Limits(4000)
    cell = cell_here(function, quantized, spec, files="quantized", search=search, limits=limits, differentiable=False)
    for name in rows:
        next(one for one in CHECKS if one.name == name).run(cell)


def test_right_results_are_accepted() -> None:
    _judge(quantized)


@pytest.mark.parametrize("wrong", [_cut_off, _of_another_format, _last_bit, _not_clamped])
def test_wrong_results_are_found(wrong: Callable[..., Any]) -> None:
    with pytest.raises(CheckFailed, match="elements differ"):
        _judge(wrong)


def _neighbour(got: Tensor, want: Tensor, x: Tensor) -> Tensor:
    return (got.view(torch.uint8).int() - want.view(torch.uint8).int()).abs() <= 1


def test_what_a_spec_calls_a_tie_is_accepted() -> None:
    ties = Spec(calls=_calls, results=(Result(tie=_neighbour, reason="a quotient may be rounded to either"),))
    _judge(_last_bit, ties, ("values",))


def test_any_nan_equals_any_other() -> None:
    nans = torch.tensor([0x7F, 0xFF, 0x10], dtype=torch.uint8).view(E4M3)
    assert exact_mismatch(nans, nans[[1, 0, 2]]) is None
    assert "1 of 3 elements differ" in str(exact_mismatch(nans, nans[[0, 2, 2]]))


def test_arguments_in_float8_are_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"torch\.uint8, and view them: x\.view\(torch\.float8_e5m2\)"):
        TensorCase((3,), torch.float8_e5m2)
