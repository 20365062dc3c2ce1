"""Calls that a spec never draws: what the row `values` says of an op that is wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.spec import Call, Limits, Spec, TensorCase
from trifold.verification.calls import Search
from trifold.verification.checks.dependence import MANY
from trifold.verification.checks.undrawn import right_or_refused
from trifold.verification.checks.values import compare, values
from trifold.verification.outcomes import CheckFailed

CALL = Call((TensorCase((6, 4), torch.float32, seed=2),))
KNOWN = CALL.args[0].make()


def _copy(x: Tensor) -> Tensor:
    return x.contiguous().clone()


def _judge(function: Callable[..., Any], call: Call = CALL, reference: Callable[..., Any] = _copy) -> CheckFailed:
    with pytest.raises(CheckFailed) as raised:
        _require_right(function, call, reference)
    return raised.value


def _require_right(function: Callable[..., Any], call: Call, reference: Callable[..., Any]) -> None:
    spec = Spec(calls=lambda limits: st.just(call))
    cell = cell_here(function, reference, spec, files="op", search=Search(2), limits=Limits(100), differentiable=False)
    cell.run_case(lambda call: compare(cell, call), call)
    cell.calls.extend([call] * MANY)
    right_or_refused(cell, compare)


def _of_float32(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError("op: x must be float32")
    return x.clone()


def test_an_op_that_ignores_strides_is_told_to_refuse_the_layout() -> None:
    failed = _judge(lambda x: _of_float32(x.as_strided(x.shape, (4, 1))))
    assert "the op takes x transposed, where it is contiguous in each call of the spec: refuse it, or" in failed.message


def test_an_op_that_is_as_wrong_with_the_same_numbers_contiguous_is_not() -> None:
    failed = _judge(lambda x: _of_float32(x) if torch.equal(x, KNOWN) else _of_float32(x) * 1.5)
    assert "of numbers that no call of the spec has; if sums of such numbers cancel, state what the" in failed.message
    assert failed.sample == "the numbers of x transposed, contiguous"
    assert failed.call is not None
    (case,) = (case for _, case in failed.call.cases())
    names = {"TensorCase": TensorCase, "torch": torch}
    assert torch.equal(eval(case.code, names), case.make())
    assert case.make().is_contiguous()


def test_an_op_that_merges_dimensions_in_any_order_is_told_to_refuse_one() -> None:
    def by_rows(x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or x.stride(2) != 1:
            raise RuntimeError("op: x must be float32, and its last dimension contiguous")
        return x.as_strided((6, 4), (x.stride(0) // 3, 1), x.storage_offset()).clone().view(2, 3, 4)

    failed = _judge(by_rows, Call((TensorCase((2, 3, 4), torch.float32, "offset", seed=2, offset=1),)))
    assert "the op takes x with dimension 1 outermost in memory, as in no call of the spec: refuse it" in failed.message


def test_an_op_that_ignores_a_number_which_is_the_same_in_each_call_is_told_to_refuse_others() -> None:
    def divided(x: Tensor, size: int, eps: float, whole: bool) -> Tensor:
        return (x if whole else x[1:]) / (size + eps)

    def only(**known: Any) -> Callable[..., Tensor]:
        def op(x: Tensor, size: int, eps: float, whole: bool) -> Tensor:
            if x.dtype != torch.float32:
                raise RuntimeError("op: x must be float32")
            given = {"size": size, "eps": eps, "whole": whole}
            return divided(x, **given | known)

        return op

    call = Call((CALL.args[0], 4, 1e-6), {"whole": True})
    _require_right(only(), call, divided)
    for name, value, other in (("size", 4, "5"), ("eps", 1e-6, "0.25"), ("whole", True, "False")):
        failed = _judge(only(**{name: value}), call, divided)
        words = f"the op takes {name} = {other}, where it is {value} in each call of the spec: refuse it, or be right"
        assert words in failed.message

    def refusing(x: Tensor, size: int, eps: float, whole: bool) -> Tensor:
        if (size, eps, whole) != (4, 1e-6, True):
            raise ValueError("op: size must be 4, eps 1e-6, and whole True")
        return only()(x, size, eps, whole)

    _require_right(refusing, call, divided)


def test_a_number_for_which_the_reference_is_random_is_left_alone() -> None:
    def dropped(x: Tensor, p: float) -> Tensor:
        return torch.nn.functional.dropout(x.contiguous(), p)

    def with_random_numbers_of_its_own(x: Tensor, p: float) -> Tensor:
        if x.dtype != torch.float32:
            raise RuntimeError("op: x must be float32")
        own = torch.Generator().manual_seed(int(torch.randint(9, ())) + 17)
        return x.contiguous() * (torch.rand(x.shape, generator=own) >= p) / (1 - p)

    _require_right(with_random_numbers_of_its_own, Call((CALL.args[0], 0.0)), dropped)


def _of_two_dimensions(x: Tensor) -> Tensor:
    """Copies as many rows as the first dimension has, of as many columns as the second has."""
    out, rows = torch.zeros(x.shape, dtype=x.dtype), x.shape[0] * x.shape[1]
    out.view(-1)[:rows] = x.reshape(-1)[:rows]
    return out


def test_an_op_that_leaves_out_further_dimensions_is_told_to_refuse_them() -> None:
    failed = _judge(_of_two_dimensions)
    assert "the op takes x of 3 dimensions, where it has 2 in each call of the spec: refuse it" in failed.message


def test_an_op_that_has_room_for_few_tensors_is_told_to_refuse_more() -> None:
    def total(xs: list[Tensor]) -> Tensor:
        return torch.stack(xs).sum(0)

    call = Call(([TensorCase((4,), torch.float32, seed=seed) for seed in range(3)],))
    _require_right(total, call, total)
    failed = _judge(lambda xs: total(xs[:48]), call, total)
    assert "the op takes xs of 201 tensors: refuse it, or be right and draw it" in failed.message


def test_an_op_that_reads_a_mask_as_bytes_is_told_to_refuse_numbers() -> None:
    def kept(x: Tensor, mask: Tensor) -> Tensor:
        return x * (mask != 0)

    def by_bytes(x: Tensor, mask: Tensor) -> Tensor:
        bytes_of_mask = mask.contiguous().view(-1).view(torch.uint8)
        return x * (bytes_of_mask[: mask.numel()].view(mask.shape) != 0)

    call = Call((TensorCase((6, 4), torch.float32, seed=2), TensorCase((6, 4), torch.bool, seed=3)))
    _require_right(kept, call, kept)
    failed = _judge(by_bytes, call, kept)
    assert "the op takes mask in int64, where it is bool in each call of the spec: refuse it" in failed.message


def test_an_op_that_rounds_a_number_to_float32_is_wrong_in_float64() -> None:
    def scaled(x: Tensor, factor: float) -> Tensor:
        return x * factor

    def rounded(x: Tensor, factor: float) -> Tensor:
        return x * float(torch.tensor(factor, dtype=torch.float32))

    call = Call((TensorCase((6, 4), torch.float64, seed=2), 0.5))
    _require_right(scaled, call, scaled)
    failed = _judge(rounded, call, scaled)
    assert "the op takes factor = 0.5000000004656613, which no call of the spec has" in failed.message


def test_an_op_that_takes_a_negative_number_is_right_for_it() -> None:
    def moved(x: Tensor, count: int) -> Tensor:
        return torch.roll(x, count, -1)

    call = Call((TensorCase((6, 4), torch.float32, seed=2), 1))
    _require_right(moved, call, moved)
    failed = _judge(lambda x, count: moved(x, max(count, 0)), call, moved)
    assert "the op takes count = -1, which no call of the spec has" in failed.message


def test_an_op_has_the_defaults_of_the_reference() -> None:
    def reference(x: Tensor, factor: float = 2.0) -> Tensor:
        return x * factor

    def other(x: Tensor, factor: float = 0.5) -> Tensor:
        return x * factor

    spec = Spec(calls=lambda limits: st.just(Call((TensorCase((6, 4), torch.float32, seed=2), 3.0))))
    for function, wrong in ((reference, False), (other, True)):
        cell = cell_here(function, reference, spec, files="op", search=Search(2), limits=Limits(100))
        with pytest.raises(CheckFailed, match="without factor, the op has another result") if wrong else nullcontext():
            values(cell)
