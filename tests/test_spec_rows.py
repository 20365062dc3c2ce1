"""Ops on rows: the strategies reach every kind of rows, and a long one shows what a sum in half loses."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    ROW_FILLS,
    ROW_LAYOUTS,
    Call,
    Limits,
    TensorCase,
    row_calls,
    row_edges,
    row_long,
    row_nan,
    row_shapes,
    row_specials,
    rows_alike,
    rows_benchmarks,
)
from trifold.verification.comparison import with_working

deterministic = settings(
    derandomize=True, database=None, deadline=None, max_examples=100, suppress_health_check=list(HealthCheck)
)

REACHED: dict[str, Callable[[TensorCase], bool]] = {
    "no row": lambda case: 0 in case.shape[:-1],
    "no column": lambda case: case.shape[-1] == 0 and 0 not in case.shape[:-1],
    "one dimension": lambda case: len(case.shape) == 1,
    "four dimensions": lambda case: len(case.shape) == 4,
    "many rows": lambda case: case.shape[0] > 32,
    "longer than a block of vectors": lambda case: case.shape[-1] > 4096,
    **{layout: (lambda case, layout=layout: case.layout == layout and len(case.shape) > 1) for layout in ROW_LAYOUTS},  # type: ignore[misc]
    **{fill: (lambda case, fill=fill: case.fill == fill) for fill in ROW_FILLS},  # type: ignore[misc]
    **{str(dtype): (lambda case, dtype=dtype: case.dtype == dtype) for dtype in DTYPES},  # type: ignore[misc]
}


@pytest.fixture(scope="module")
def drawn() -> list[TensorCase]:
    """Samples of a verification: one tensor of each of 300 calls."""
    cases: list[TensorCase] = []

    @settings(deterministic, max_examples=300, phases=[Phase.generate])
    @given(row_calls(1)(Limits(elements=20_000)))
    def draw(call: Call) -> None:
        cases.append(call.args[0])

    draw()
    return cases


@pytest.mark.parametrize("kind", REACHED)
def test_every_kind_of_rows_is_reached(kind: str, drawn: list[TensorCase]) -> None:
    assert any(REACHED[kind](case) for case in drawn)


def test_limits_hold(drawn: list[TensorCase]) -> None:
    assert all(torch.Size(case.shape).numel() <= 20_000 for case in drawn)


@deterministic
@given(shape=row_shapes(Limits(elements=600), least=3, max_dims=2))
def test_columns_and_dimensions_can_be_bounded(shape: tuple[int, ...]) -> None:
    assert len(shape) <= 2
    assert shape[-1] >= 3


@deterministic
@given(st.data())
def test_as_many_elements_are_drawn_as_are_asked_for(data: st.DataObject) -> None:
    fewest = data.draw(st.integers(8, 200_000))
    limits = Limits(data.draw(st.integers(fewest, 2 * fewest + 1)), fewest)
    for least, dims in ((0, 4), (1, 2), (5, 3), (0, 1)):
        shape = data.draw(row_shapes(limits, least=least, max_dims=dims))
        assert limits.fewest <= math.prod(shape) <= limits.elements
        assert len(shape) <= dims
        assert shape[-1] >= least


def test_rows_of_one_number_of_elements_have_more_than_a_column() -> None:
    shapes: list[tuple[int, ...]] = []

    @settings(deterministic, max_examples=20, phases=[Phase.generate])
    @given(row_shapes(Limits(45, 45)))
    def draw(shape: tuple[int, ...]) -> None:
        shapes.append(shape)

    draw()
    assert {shape[-1] for shape in shapes} >= {9, 15, 45}


def test_both_long_rows_and_many_rows_are_drawn() -> None:
    shapes: set[tuple[int, ...]] = set()

    @settings(deterministic, max_examples=200, phases=[Phase.generate])
    @given(row_shapes(Limits(2**21 - 1, 2**20)))
    def draw(shape: tuple[int, ...]) -> None:
        shapes.add(shape)

    draw()
    assert any(shape[-1] >= 2**19 for shape in shapes)
    assert any(math.prod(shape[:-1]) > 2**16 for shape in shapes)


@deterministic
@given(cases=rows_alike(3, Limits(elements=100)))
def test_alike_shares_shape_and_dtype_only(cases: tuple[TensorCase, ...]) -> None:
    assert len(cases) == 3
    assert len({(case.shape, case.dtype) for case in cases}) == 1


def test_edges_have_the_lengths_that_are_asked_for() -> None:
    for dtype in DTYPES:
        shapes = {call.args[0].shape for call in row_edges(1, columns=(7, 5000)) if call.dtype == dtype}
        assert {(3, 7), (3, 5000)} <= shapes
    assert all(len({case.shape for case in call.args}) == 1 for call in row_edges(2))


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def _sums_in_half(x: Tensor) -> Tensor:
    """In bfloat16 the sum stops growing where its terms, at most 1, are half its unit in the last place."""
    total = torch.exp(x - x.amax(-1, keepdim=True)).sum(-1, keepdim=True, dtype=torch.float32)
    return _softmax(x) * (total / total.clamp(max=256.0)).to(x.dtype) if x.dtype == torch.bfloat16 else _softmax(x)


def test_a_long_row_shows_a_sum_in_half() -> None:
    row_long(1, _softmax, multiple=64).check(_softmax, "cpu")
    with pytest.raises(AssertionError, match=r"result in torch\.bfloat16"):
        row_long(1, _softmax, multiple=64).check(_sums_in_half, "cpu")


def _forgets_the_last_column(x: Tensor) -> Tensor:
    return torch.softmax(torch.cat([x[..., :-1], x[..., -1:].nan_to_num()], -1), -1)


def _spreads_nan(x: Tensor) -> Tensor:
    return _softmax(x) + 0 * x.amax()


def test_a_nan_is_seen_in_every_column_and_stays_in_its_row() -> None:
    row_nan(_softmax).check(_softmax, "cpu")
    with pytest.raises(AssertionError, match="nan is elsewhere"):
        row_nan(_softmax).check(_forgets_the_last_column, "cpu")
    with pytest.raises(AssertionError, match="nan is elsewhere"):
        row_nan(_softmax).check(_spreads_nan, "cpu")


def test_long_rows_have_a_number_that_is_not_finite_at_the_beginning_in_the_middle_and_at_the_end() -> None:
    places = set()
    for case in row_specials():
        for row in case.make().view(-1, case.shape[-1]):
            (place,) = (~row.isfinite()).nonzero().flatten().tolist()
            places.add((case.shape[-1], min(place, 1) + (place == len(row) - 1)))
    assert places == {(columns, place) for columns in (4097, 70_001) for place in range(3)}


@pytest.mark.parametrize(
    ("dtype", "units"), [(torch.float64, 3.0), (torch.float32, 3.0), (torch.bfloat16, 1 + 2.0**-15)]
)
def test_errors_inside_an_op_count_in_what_it_computes_in(dtype: torch.dtype, units: float) -> None:
    (size,) = with_working((torch.ones(1, dtype=torch.float64),), (torch.full((1,), 2.0, dtype=torch.float64),), dtype)
    assert size is not None and float(size) == units


def test_a_benchmark_of_rows_counts_what_must_move() -> None:
    forward, backward = rows_benchmarks(_softmax)
    case = forward.cases[0]
    assert (case.label, case.sizes) == ("131072 × 256", (131_072, 256))
    assert forward.bytes(case, torch.bfloat16) == 2 * 131_072 * 256 * 2
    assert backward.bytes(case, torch.float32) == 3 * 131_072 * 256 * 4
    (x,) = forward.arguments(torch.device("cpu"), torch.float32, forward.cases[6])
    assert x.shape == (10_007, 1000)
