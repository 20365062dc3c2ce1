"""Sizes that the reference refuses: the row `errors` fails for an op that accepts them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from tests.drawn_specs import cell_here
from trifold.spec import Call, IndexCase, Limits, Spec, TensorCase
from trifold.verification.cell import Cell
from trifold.verification.checks.refusals import refuses_what_the_reference_refuses
from trifold.verification.outcomes import CheckFailed


def _cell(function: Callable[..., Tensor], reference: Callable[..., Tensor], *calls: Call) -> Cell:
    spec = Spec(calls=lambda limits: st.sampled_from(calls), smooth=list(calls))
    return cell_here(function, reference, spec, files="op", limits=Limits(100))


def _scaled(x: Tensor, weight: Tensor) -> Tensor:
    return x * weight


def _scaled_without_a_check(x: Tensor, weight: Tensor) -> Tensor:
    """As a kernel that takes the number of columns from x alone."""
    return x * functional.pad(weight, (0, x.shape[1] - weight.shape[0]))  # shortens it, too


_SCALED = Call((TensorCase((3, 4), torch.float32), TensorCase((4,), torch.float32)))


def test_an_op_that_accepts_a_tensor_too_short_for_the_reference_is_rejected() -> None:
    with pytest.raises(CheckFailed) as raised:
        refuses_what_the_reference_refuses(_cell(_scaled_without_a_check, _scaled, _SCALED))
    assert raised.value.message.startswith(
        "x of shape (3, 3), where it has 4 elements along dimension 1: the reference"
    )
    assert raised.value.message.endswith("but the op raises nothing: let the op check it, or let the reference take it")


def test_an_op_that_raises_what_no_caller_expects_is_rejected() -> None:
    def with_key_error(x: Tensor, weight: Tensor) -> Tensor:
        if weight.shape[0] != x.shape[1]:
            raise KeyError("weight")
        return x * weight

    with pytest.raises(CheckFailed, match="the op raises KeyError, not RuntimeError, TypeError"):
        refuses_what_the_reference_refuses(_cell(with_key_error, _scaled, _SCALED))


def test_an_op_that_refuses_or_takes_what_the_reference_does_passes() -> None:
    cell = _cell(_scaled, _scaled, _SCALED)
    refuses_what_the_reference_refuses(cell)
    assert cell.cases == 2, "x with three columns, and weight with three elements; x with two rows is right"


def test_an_index_out_of_range_is_no_size() -> None:
    def row(x: Tensor, index: Tensor) -> Tensor:
        return x[index]

    def unchecked(x: Tensor, index: Tensor) -> Tensor:
        return x[index.clamp(max=x.shape[0] - 1)]

    call = Call((TensorCase((3, 2), torch.float32), IndexCase((5,), 3, seed=1)))
    refuses_what_the_reference_refuses(_cell(unchecked, row, call))


def test_a_number_that_the_reference_refuses_is_refused() -> None:
    def narrowed(x: Tensor, count: int) -> Tensor:
        return x.narrow(1, 0, count)

    call = Call((TensorCase((3, 4), torch.float32), 4))
    refuses_what_the_reference_refuses(_cell(narrowed, narrowed, call))
    for clamped, number in ((lambda count: max(count, 0), -1), (lambda count: min(count, 4), 5)):

        def unchecked(x: Tensor, count: int, clamped: Callable[[int], int] = clamped) -> Tensor:
            return narrowed(x, clamped(count))

        with pytest.raises(CheckFailed, match=f"count = {number}: the reference refuses this"):
            refuses_what_the_reference_refuses(_cell(unchecked, narrowed, call))


def test_a_mask_of_another_dtype_that_the_reference_refuses_is_refused() -> None:
    def kept(x: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask, x, 0)

    call = Call((TensorCase((3, 4), torch.float32), TensorCase((3, 4), torch.bool, seed=1)))
    refuses_what_the_reference_refuses(_cell(kept, kept, call))
    with pytest.raises(CheckFailed, match=r"mask in int64, where it is bool .* the reference refuses this"):
        refuses_what_the_reference_refuses(_cell(lambda x, mask: kept(x, mask != 0), kept, call))
