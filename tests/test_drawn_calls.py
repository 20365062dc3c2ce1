"""Which of a spec's calls are drawn: all kinds, and for the row ``rounding`` enough of floating-point numbers."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from hypothesis import strategies as st

from trifold.spec import FILLS, Call, Limits, Spec, TensorCase, elementwise, tensors
from trifold.spec.case import AliasCase
from trifold.verification.calls import CallSource, Search
from trifold.verification.checks.rounding import suitable_calls

SELDOM = (torch.float32, *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool) * 3)

THREE = (torch.float32, torch.float64, torch.bfloat16)


class Calls(CallSource):
    """Those of a spec, without an op. A prototype in the simulator has the fewest."""

    def __init__(self, spec: Spec, seed: int, kind: str = "prototype") -> None:
        self._kind = kind
        self.spec, self.device, self.search, self.limits = spec, "cpu", Search(8, seed), Limits()
        self._kept, self._strategies = {}, {}

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def numbers(self) -> tuple[int, ...]:
        return 300, 768, 1 << 10


def drawn_alone(limits: Limits) -> st.SearchStrategy[Call]:
    return tensors(st.just((limits.fewest,)), dtypes=SELDOM).map(lambda x: Call((x,)))


def drawn_dtype_first(limits: Limits) -> st.SearchStrategy[Call]:
    sizes = st.integers(limits.fewest, 8)
    return st.sampled_from(THREE).flatmap(
        lambda dtype: sizes.map(lambda size: Call((TensorCase((size,), dtype),))),
    )


def drawn_twice(limits: Limits) -> st.SearchStrategy[Call]:
    x = TensorCase((limits.fewest,), torch.float32)
    return st.sampled_from((Call((x, AliasCase(0))), Call((x, x))))


def test_the_first_of_what_a_spec_draws_first_comes_with_all_sizes() -> None:
    calls = Calls(Spec(calls=drawn_dtype_first), 0).drawn_calls(Limits(elements=8, fewest=1), 100, salt=1)
    drawn = {(call.dtype, call.elements) for call in calls}
    assert all(len({size for of, size in drawn if of == dtype}) >= 6 for dtype in THREE)


def test_a_size_is_drawn_for_each_number_in_the_sources() -> None:
    """Also in a half type; for gradients in one dtype."""
    calls = Calls(Spec(calls=elementwise(2)), 0, "port")
    found = {(size, call.dtype) for call in calls.calls_of_numbers() for _, case in call.cases() for size in case.shape}
    assert all({dtype.itemsize == 2 for size, dtype in found if size == n} == {True, False} for n in calls.numbers)
    once = calls.calls_of_numbers(in_half=False)
    assert len(calls.numbers) <= len(once) <= 2 * len(calls.numbers)


@st.composite
def matrices(draw: st.DrawFn, limits: Limits) -> Call:
    """As long as ``limits`` let them be, with few rows or few columns, of all fills."""
    few = draw(st.integers(1, 6))
    shape = draw(st.permutations((few, max(limits.elements // few, 1))))
    return Call((TensorCase(tuple(shape), torch.float32, fill=draw(st.sampled_from(FILLS))),))


@pytest.mark.parametrize("seed", range(3))
def test_long_rows_come_at_least_in_pairs(seed: int) -> None:
    port = Calls(Spec(calls=matrices), seed, kind="port")
    long = [call.args[0] for call in port.swept_calls() if call.elements >= 2**18]
    assert len(long) == 3 and all(1 < case.shape[0] <= 6 for case in long)
    assert not any(case.fill in ("zero", "special") for case in long)


def pairs(limits: Limits) -> st.SearchStrategy[Call]:
    operands = tensors(st.sampled_from(((3, 4), (2, 3, 5)))), tensors((3, 4), layouts=("contiguous", "offset"))
    return st.tuples(*operands).map(Call)


def test_a_tensor_has_stride_0_in_its_first_and_in_its_last_dimension_if_the_spec_expands_it() -> None:
    calls = list(Calls(Spec(calls=pairs), 0).expanded_calls())
    assert [(call.args[0].layout, call.args[1].layout != "expanded") for call in calls] == [("expanded", True)] * 2
    assert [call.args[0].make().stride().index(0) - len(call.args[0].shape) for call in calls][1] == -1
    assert calls[0].args[0].make().stride(0) == 0


def rows(limits: Limits) -> st.SearchStrategy[Call]:
    return st.sampled_from(((1, limits.elements), (limits.elements, 1))).map(lambda shape: Call((TensorCase(shape),)))


def test_each_remainder_of_a_warp_comes_as_that_of_a_rows_columns() -> None:
    columns = [call.args[0].shape[1] for call in Calls(Spec(calls=rows), 0).tail_calls()]
    assert len({count % 32 for count in columns if count >= 32}) >= 30


def one_long_row(limits: Limits) -> st.SearchStrategy[Call]:
    return tensors((1, limits.elements), layouts=("outermost", "sliced"), fills=("wide",)).map(lambda x: Call((x,)))


def test_the_largest_number_of_a_peaked_call_is_alone_in_the_last_column() -> None:
    peaked = [call.args[0].make().float() for call in Calls(Spec(calls=one_long_row), 0, kind="port").peaked_calls()]
    assert len(peaked) == 2
    assert all(x.argmax() == x.numel() - 1 and (x == x.max()).sum() == 1 for x in peaked)


@st.composite
def long_or_many_rows(draw: st.DrawFn, limits: Limits) -> Call:
    rows = draw(st.sampled_from((3, 2000)))
    return Call((TensorCase((rows, limits.elements // rows), draw(st.sampled_from(THREE))),))


@pytest.mark.parametrize("seed", range(3))
def test_a_prototype_has_many_rows_and_long_ones_as_native_code_of_one_dtype(seed: int) -> None:
    many, long = (call.args[0] for call in Calls(Spec(calls=long_or_many_rows), seed).native_calls())
    assert (many.shape[0], long.shape[0]) == (2000, 3)
    assert many.dtype == long.dtype == torch.float32


@pytest.mark.parametrize("seed", range(3))
def test_many_rows_have_several_columns_and_numbers_that_show(seed: int) -> None:
    call = Calls(Spec(calls=matrices), seed, kind="port").call_of_rows(65_537, 2**19)
    assert call is not None
    rows, columns = call.args[0].shape
    assert rows > 65_536 and columns > 1 and call.args[0].fill not in ("zero", "special")


@pytest.mark.parametrize("seed", range(3))
def test_an_op_that_mostly_takes_integers_has_calls_of_floating_point_numbers(seed: int) -> None:
    found = list(islice(suitable_calls(Calls(Spec(calls=drawn_alone), seed), 256), 4))
    assert [call.dtype for _, call in found] == [torch.float32] * 4


def test_calls_with_one_tensor_given_twice_are_left_out() -> None:
    found = list(islice(suitable_calls(Calls(Spec(calls=drawn_twice), 0), 256), 4))
    assert len(found) == 4 and not any(isinstance(case, AliasCase) for _, call in found for case in call.args)
