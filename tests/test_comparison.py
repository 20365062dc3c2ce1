"""Results against the reference's, where an intermediate result is at the end of the range; and their scales."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.spec import Call, Spec, TensorCase
from trifold.verification.comparison import Expected, with_working, within_range
from trifold.verification.outcomes import CheckFailed

LARGEST = torch.finfo(torch.float32).max
CALL = Call((TensorCase((3,), torch.float32),))
KNOWN = CALL.args[0].make()


def _scaled_and_shifted(x: Tensor) -> Tensor:
    """1.25 · factors · x / KNOWN - LARGEST / 2: the first product is just below the end of the range, no other is."""
    factors = torch.tensor([1 / 1.25 - 2**-24, 0.7, 0.5], dtype=x.dtype) * (x / KNOWN.to(x.dtype))
    result: Tensor = 1.25 * (factors * LARGEST) - LARGEST / 2
    return result


@pytest.mark.parametrize(
    ("result", "right"),
    [
        ([float("inf"), 0, 0], True),
        ([0, float("inf"), 0], False),
        ([-float("inf"), 0, 0], False),
        ([float("nan"), 0, 0], False),
        ([float("inf"), 0, 1e34], False),
    ],
)
def test_inf_is_right_where_the_references_own_intermediate_result_just_does_not_overflow(
    result: list[float], right: bool
) -> None:
    spec = Spec(calls=lambda limits: st.just(CALL))
    cell = cell_here(_scaled_and_shifted, _scaled_and_shifted, spec, files="op", differentiable=False)
    expected = Expected.of(cell, CALL)
    assert bool(expected.native[0].isfinite().all())
    wrong = expected.wrong(0, expected.native[0] + torch.tensor(result))
    assert (wrong is None) == right, wrong


def test_sizes_beyond_the_range_of_a_half_type_count_in_round_offs_of_float32() -> None:
    sizes = [torch.tensor([2.0, 65504 + 2.0**33], dtype=torch.float64)]
    (size,) = within_range(sizes, torch.float16)
    assert size is not None
    assert size.tolist() == [2, 65504 + 2.0**20]
    (both,) = with_working([size], [torch.tensor([2.0**13, 0])], torch.float16)
    assert both is not None
    assert both.tolist() == [3, 65504 + 2.0**20]


@pytest.mark.parametrize(
    ("scale", "says"),
    [
        (lambda reference, x: (x, x), "returns 2 scales, the reference 1 result: return one for each, in a tuple"),
        (lambda reference, x: x[:2], r"returns shape \(2,\) for result 0, which does not broadcast to .* \(3,\)"),
    ],
)
def test_a_scale_that_does_not_fit_the_results_is_the_specs_mistake(scale: Any, says: str) -> None:
    spec = Spec(calls=lambda limits: st.just(CALL), scale=scale)
    cell = cell_here(torch.square, torch.square, spec, files="op", differentiable=False)
    with pytest.raises(CheckFailed, match=r"Spec\(scale=...\) " + says):
        Expected.of(cell, CALL)
