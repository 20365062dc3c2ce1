"""Whether the cases of an op whose result is one number would show a constant."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from hypothesis import strategies as st

from trifold.spec import Call, Limits, Spec, TensorCase
from trifold.verification.calls import Search
from trifold.verification.cell import Cell
from trifold.verification.checks.sensitivity import sensitivity
from trifold.verification.outcomes import CheckFailed


def cell_of(*cases: TensorCase) -> Cell:
    """Of an op that adds up all elements; the values check has compared these cases."""
    calls = [Call((case,)) for case in cases]
    spec = Spec(calls=lambda limits: st.sampled_from(calls), smooth=calls)
    nothing = cast(Any, None)
    return Cell(spec, nothing, "cpu", torch.sum, Search(1), Limits(), nothing, calls=calls, compared_all=True)


def test_cases_of_a_values_check_that_failed_are_not_judged() -> None:
    cell = cell_of(TensorCase((4,), seed=1))
    cell.compared_all = False
    with pytest.raises(CheckFailed, match="correct that first"):
        sensitivity(cell)


def test_other_numbers_reject_a_constant() -> None:
    remark = sensitivity(cell_of(TensorCase((1025,), seed=1), TensorCase((1026,), seed=2)))
    assert "are rejected within 2 cases" in remark


def test_one_number_in_all_cases_does_not() -> None:
    with pytest.raises(CheckFailed, match="would accept a constant and the last call's output"):
        sensitivity(cell_of(*[TensorCase((1025,), seed=1)] * 3))


def test_small_cases_alone_do_not_show_a_launch_of_one_block() -> None:
    with pytest.raises(CheckFailed, match="no case of the values check has more than 1024 elements"):
        sensitivity(cell_of(TensorCase((4,), seed=1), TensorCase((1024,), seed=2)))


def test_a_constant_of_another_dtype_may_leave_the_range_of_this_one() -> None:
    huge = TensorCase((4,), torch.float64, fill="huge", seed=1)
    remark = sensitivity(cell_of(huge, TensorCase((1025,), seed=2), TensorCase((1026,), seed=3)))
    assert "are rejected within 3 cases" in remark
