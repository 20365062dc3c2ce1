"""Tolerances: a result as good as rounding allows passes, one that is worse fails."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import DTYPES
from trifold.verification.tolerance import form_mismatch, mismatch, overlap, same_bits, same_numbers

INF, NAN = math.inf, math.nan

deterministic = settings(derandomize=True, database=None, deadline=None, max_examples=60)
dtypes = st.sampled_from(DTYPES)


def exact_values(low: float = -100.0, high: float = 100.0) -> st.SearchStrategy[Tensor]:
    """One to eight float64 numbers."""
    return st.lists(st.floats(low, high, allow_nan=False), min_size=1, max_size=8).map(
        lambda values: torch.tensor(values, dtype=torch.float64)
    )


def one_ulp_off(x: Tensor, up: Tensor) -> Tensor:
    """The next number of the dtype in magnitude where ``up``, else the one before."""
    integer = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.dtype.itemsize]
    bits = x.contiguous().view(integer)
    return (bits + torch.where(up, 1, -1).to(integer)).view(x.dtype)


@deterministic
@given(exact=exact_values(), dtype=dtypes)
def test_the_rounded_exact_result_passes(exact: Tensor, dtype: torch.dtype) -> None:
    rounded = exact.to(dtype)
    assert mismatch(rounded, exact, rounded, None) is None
    assert mismatch(rounded, exact, rounded, exact.abs()) is None


@deterministic
@given(exact=exact_values(0.5, 100), dtype=dtypes, seed=st.integers(0, 100))
def test_one_unit_in_the_last_place_passes(exact: Tensor, dtype: torch.dtype, seed: int) -> None:
    rounded = exact.to(dtype)
    up = torch.rand(exact.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    assert mismatch(one_ulp_off(rounded, up), exact, rounded, None) is None


@deterministic
@given(exact=exact_values(0.5, 100), dtype=dtypes, sign=st.sampled_from((-1, 1)), where=st.integers(0, 7))
def test_ten_unit_round_offs_fail(exact: Tensor, dtype: torch.dtype, sign: int, where: int) -> None:
    off = exact.clone()
    off[where % len(off)] *= 1 + sign * 10 * torch.finfo(dtype).eps / 2
    wrong = mismatch(off.to(dtype), exact, exact.to(dtype), None)
    assert wrong is not None
    assert wrong.startswith("1 of ")
    assert f"at ({where % len(off)},)" in wrong


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_scale_widens_and_the_multiple_counts_in_it(dtype: torch.dtype) -> None:
    exact = torch.tensor([1.0, 1.0], dtype=torch.float64)
    scale = torch.tensor([1.0, 8.0], dtype=torch.float64)
    unit = torch.finfo(dtype).eps / 2
    off = (exact + torch.tensor([0.0, 24 * unit], dtype=torch.float64)).to(dtype)
    assert mismatch(off, exact, exact.to(dtype), scale) is None
    assert mismatch(off, exact, exact.to(dtype), scale, multiple=2.0) is not None
    assert mismatch(off, exact, exact.to(dtype), None) is not None
    assert mismatch(off.flip(0), exact, exact.to(dtype), scale) is not None


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_error_that_pytorch_makes_widens_by_twice(dtype: torch.dtype) -> None:
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    unit = torch.finfo(dtype).eps / 2
    native = (exact * torch.tensor([1.0, 1 + 10 * unit], dtype=torch.float64)).to(dtype)
    inside = (exact * (1 + 16 * unit)).to(dtype)
    outside = (exact * (1 + 40 * unit)).to(dtype)
    assert mismatch(inside, exact, native, None) is None
    assert mismatch(outside, exact, native, None) is not None
    assert mismatch(inside, exact, exact.to(dtype), None) is not None


@deterministic
@given(exact=exact_values(), error=st.floats(-1, 1), dtype=dtypes)
def test_pytorchs_own_result_passes_whatever_its_error(exact: Tensor, error: float, dtype: torch.dtype) -> None:
    own = (exact + error * torch.linspace(0, 1, len(exact), dtype=torch.float64)).to(dtype)
    assert mismatch(own, exact, own, None) is None


@deterministic
@given(
    want=st.lists(st.sampled_from((0.0, 1.0, -2.5, INF, -INF, NAN)), min_size=1, max_size=6),
    where=st.integers(0, 5),
    instead=st.sampled_from((1.0, INF, -INF, NAN)),
    dtype=dtypes,
)
def test_nan_and_inf_must_stand_where_they_do(
    want: list[float], where: int, instead: float, dtype: torch.dtype
) -> None:
    exact = torch.tensor(want, dtype=torch.float64)
    got = exact.clone()
    got[where % len(want)] = instead
    same = torch.equal(got.nan_to_num(nan=7.0), exact.nan_to_num(nan=7.0))
    wrong = mismatch(got.to(dtype), exact, exact.to(dtype), None)
    assert (wrong is None) == same


@pytest.mark.parametrize("dtype", DTYPES)
def test_at_the_end_of_the_range_the_largest_number_and_inf_are_both_right(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    eps = torch.finfo(dtype).eps
    at_the_end = torch.tensor([largest], dtype=torch.float64)
    inf, end = torch.tensor([INF], dtype=dtype), torch.tensor([largest], dtype=dtype)
    for got in (inf, end):
        assert mismatch(got, at_the_end, end, None) is None
    for got in (-inf, -end, inf * 0):
        assert mismatch(got, at_the_end, end, None) is not None
    # well inside the range, inf is wrong
    inside = at_the_end * (1 - 64 * eps) if eps < 2**-9 else at_the_end / 2
    assert mismatch(inf, inside, inside.to(dtype), None) is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_far_beyond_the_range_only_inf_of_the_right_sign_is_right(dtype: torch.dtype) -> None:
    beyond = torch.tensor([3.0 * torch.finfo(dtype).max], dtype=torch.float64)
    inf = torch.tensor([INF], dtype=dtype)
    assert mismatch(inf, beyond, inf, None) is None
    for got in (-inf, torch.tensor([torch.finfo(dtype).max], dtype=dtype), torch.tensor([NAN], dtype=dtype)):
        assert mismatch(got, beyond, inf, None) is not None


def test_what_pytorch_overflows_to_in_that_dtype_is_accepted_where_we_give_the_same() -> None:
    exact = torch.tensor([1.0, 1.0], dtype=torch.float64)
    native = torch.tensor([NAN, 1.0])
    assert mismatch(torch.tensor([NAN, 1.0]), exact, native, None) is None
    assert mismatch(torch.tensor([1.0, 1.0]), exact, native, None) is None
    assert mismatch(torch.tensor([INF, 1.0]), exact, native, None) is not None
    assert mismatch(torch.tensor([1.0, NAN]), exact, native, None) is not None


@pytest.mark.parametrize("dtype", DTYPES)
def test_below_the_range_a_few_quanta_pass_and_a_larger_error_fails(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    quantum = info.smallest_normal * info.eps
    exact = torch.tensor([0.0, 3 * quantum, info.smallest_normal / 2], dtype=torch.float64)
    native = exact.to(dtype)
    # Half types are computed in float32, where nothing underflows; in float64 the exact result is off by as much.
    few = {2: 1, 4: 16, 8: 16384}[dtype.itemsize]
    assert mismatch((exact + few * quantum).to(dtype), exact, native, None) is None
    assert mismatch((exact + (few + 8) * quantum).to(dtype), exact, native, None) is not None
    # a flush to zero is an error as large as the number
    assert mismatch(torch.zeros_like(native), exact, native, None) is not None


def test_below_the_range_the_error_that_pytorch_makes_elsewhere_widens_by_twice() -> None:
    """y·g of a y that float16 rounds to a multiple of 2^-24: off by g/2 of these."""
    quantum = 2.0**-24
    exact = torch.tensor([10.4, 20.2], dtype=torch.float64) * 3 * quantum
    own = torch.tensor([30, 60], dtype=torch.float64).mul(quantum).half()  # 1.2 and 0.6 quanta
    ours = torch.tensor([31, 58], dtype=torch.float64).mul(quantum).half()  # 0.2 and 2.6
    assert mismatch(ours, exact, own, None) is not None
    ours[1] = 63 * quantum  # 2.4: twice what PyTorch's first element is off by
    assert mismatch(ours, exact, own, None) is None


def test_a_gradient_kept_in_a_half_type_may_be_off_by_half_a_quantum_times_the_upstream_gradient() -> None:
    """0.58 is kept as 1 quantum, and 1.54 quanta become 2 where 0.89 is exact."""
    quantum = 2.0**-24
    exact = torch.tensor([0.89 * quantum], dtype=torch.float64)
    own, ours, beyond = (torch.tensor([n * quantum]).half() for n in (1, 2, 3))
    assert mismatch(ours, exact, own, None, upstream=1.54) is None
    assert mismatch(ours, exact, own, None) is not None
    assert mismatch(beyond, exact, own, None, upstream=1.54) is not None


def test_the_multiple_counts_where_a_unit_round_off_of_float64_is_no_number() -> None:
    # 8 round-offs are 3.2 quanta, each less than half a quantum; 32,768 are allowed for intermediate results.
    exact = torch.tensor([1.8e-308], dtype=torch.float64)
    quantum = 5e-324
    assert mismatch(exact + 32_771 * quantum, exact, exact, None, multiple=8) is None
    assert mismatch(exact + 32_774 * quantum, exact, exact, None, multiple=8) is not None


def test_in_float64_an_intermediate_result_may_underflow_before_it_is_enlarged() -> None:
    """The gradient of rms_norm for rows of one small number and a tiny weight: the reference is off by as much."""
    exact = torch.tensor([3.852078776312e-311], dtype=torch.float64)
    assert mismatch(torch.tensor([3.8520787761316e-311], dtype=torch.float64), exact, exact, None) is None
    assert mismatch(exact * 1.01, exact, exact, None) is not None
    assert mismatch(exact * 0, exact, exact, None) is not None


def test_terms_beyond_the_range_of_a_half_type_widen_the_bound_of_their_sum_and_an_infinite_scale_does_not() -> None:
    exact = torch.tensor([3789.0], dtype=torch.float64)
    native, off = exact.half(), (exact + 331).half()
    assert mismatch(off, exact, native, torch.tensor([1e6])) is None
    assert mismatch(off, exact, native, torch.tensor([float("inf")])) is not None
    assert mismatch(off.float(), exact, native.float(), torch.tensor([1e6])) is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_near_the_end_of_a_half_types_range_a_rounded_result_is_right_where_pytorchs_own_overflows(
    dtype: torch.dtype,
) -> None:
    exact = torch.tensor([-0.8882 * torch.finfo(dtype).max], dtype=torch.float64)
    rounded, overflowed = exact.to(dtype), torch.tensor([float("-inf")], dtype=dtype)
    assert mismatch(rounded, exact, overflowed, 2 * exact.abs()) is None
    assert mismatch((exact * 0.9).to(dtype), exact, overflowed, 2 * exact.abs()) is not None


def test_zeros_never_pass_for_a_result_that_is_not_zero() -> None:
    for dtype in DTYPES:
        exact = torch.tensor([1.0, 0.0], dtype=torch.float64)
        assert mismatch(torch.zeros(2, dtype=dtype), exact, exact.to(dtype), None) is not None


def test_nothing_is_wrong_with_no_element() -> None:
    empty = torch.empty(0, 3)
    assert mismatch(empty, empty.double(), empty, None) is None
    assert form_mismatch(empty, torch.empty_strided((0, 3), (1, 7))) is None
    assert form_mismatch(empty, torch.empty(3, 0)) is not None


def test_the_place_of_a_difference_is_named_also_in_a_scalar() -> None:
    exact = torch.tensor(1.0, dtype=torch.float64)
    assert "at ()" in str(mismatch(torch.tensor(2.0), exact, exact.float(), None))
    matrix = torch.zeros(2, 3, dtype=torch.float64)
    got = matrix.float()
    got[1, 2] = 5
    assert "at (1, 2)" in str(mismatch(got, matrix, matrix.float(), None))


def test_strides_count_only_where_there_is_more_than_one_element() -> None:
    x = torch.zeros(1, 4, 1)
    assert form_mismatch(x, x.as_strided((1, 4, 1), (99, 1, 77))) is None
    assert "strides" in str(form_mismatch(torch.zeros(3, 4), torch.zeros(4, 3).t()))
    assert form_mismatch(torch.zeros(1, 4), torch.zeros(4, 1).t()) is None


def test_where_a_contiguous_result_may_be_meant_the_remedy_is_said() -> None:
    dense, transposed = torch.zeros(3, 4), torch.zeros(4, 3).t()
    assert str(form_mismatch(dense, transposed)).endswith(
        "if contiguous is meant, return .contiguous() from the reference"
    )
    assert ".contiguous()" not in str(form_mismatch(transposed, dense))
    assert ".contiguous()" not in str(form_mismatch(dense, transposed, "the real one"))


def test_dtype_shape_and_device_count() -> None:
    x = torch.zeros(2, 3)
    assert "dtype" in str(form_mismatch(x, x.double()))
    assert "shape" in str(form_mismatch(x, x.reshape(3, 2)))
    assert "meta" in str(form_mismatch(x, x.to("meta")))


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_tells_zeros_apart_and_takes_a_nan_for_itself(dtype: torch.dtype) -> None:
    assert same_bits(torch.tensor([NAN, 0.0], dtype=dtype), torch.tensor([NAN, 0.0], dtype=dtype))
    assert not same_bits(torch.tensor([0.0], dtype=dtype), torch.tensor([-0.0], dtype=dtype))
    assert not same_bits(torch.zeros(2, dtype=dtype), torch.zeros(1, 2, dtype=dtype))


@pytest.mark.parametrize(
    ("dtype", "integer"),
    [
        (torch.float16, torch.int16),
        (torch.bfloat16, torch.int16),
        (torch.float32, torch.int32),
        (torch.float64, torch.int64),
        (torch.complex64, torch.int32),
    ],
)
def test_same_numbers_takes_any_nan_for_any_other_and_nothing_else(dtype: torch.dtype, integer: torch.dtype) -> None:
    a = torch.tensor([NAN, 1.0, 0.0], dtype=dtype)
    other_nan = a.clone()
    other_nan.view(integer)[0] += 1
    assert same_numbers(a, other_nan)
    assert not same_bits(a, other_nan)
    for wrong in ([NAN, 2.0, 0.0], [NAN, 1.0, -0.0], [1.0, NAN, 0.0], [NAN, NAN, 0.0]):
        assert not same_numbers(a, torch.tensor(wrong, dtype=dtype))


def test_parts_of_one_storage_overlap_where_they_have_an_element_in_common() -> None:
    memory = torch.zeros(4, 6)
    assert overlap(memory[:3], memory[2:])
    assert overlap(memory[:, 1::2], memory[1, 3])
    assert not overlap(memory[:2], memory[2:])
    assert not overlap(memory[:, ::2], memory[:, 1::2])
    assert not overlap(memory[:2], torch.zeros(4, 6)[:2])
