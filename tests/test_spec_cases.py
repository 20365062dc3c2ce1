"""Tensors as data: a case makes the tensor that it describes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from trifold.spec import (
    DTYPES,
    ROW_FILLS,
    ROW_LAYOUTS,
    IndexCase,
    TensorCase,
)
from trifold.spec.fills import special_numbers
from trifold.verification.tolerance import same_bits

SHAPES = [(), (0,), (1,), (5,), (2, 3), (3, 1, 2), (0, 4), (2, 0)]


def _case(shape: tuple[int, ...], layout: Any, **more: Any) -> TensorCase:
    return TensorCase(shape, layout=layout, **more)


def _indices(**more: Any) -> IndexCase:
    return IndexCase((2,), 5, **more)


@pytest.mark.parametrize("layout", ROW_LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shape_and_dtype_are_those_of_the_case(layout: Any, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        x = _case(shape, layout, dtype=dtype).make()
        assert (tuple(x.shape), x.dtype, str(x.device)) == (shape, dtype, "cpu")


@pytest.mark.parametrize(
    ("layout", "strides", "offset"),
    [
        ("contiguous", (12, 4, 1), 0),
        ("offset", (12, 4, 1), 1),
        ("transposed", (1, 2, 6), 0),
        ("sliced", (27, 9, 2), 1),
        ("expanded", (0, 4, 1), 0),
        ("outermost", (12, 4, 1), 0),
        ("innermost", (1, 8, 2), 0),
        ("narrowed", (12, 4, 1), 12),
        ("padded", (15, 5, 1), 1),
    ],
)
def test_layout_is_what_its_name_says(layout: Any, strides: tuple[int, ...], offset: int) -> None:
    x = _case((2, 3, 4), layout).make()
    assert x.stride() == strides
    assert x.storage_offset() == offset


@pytest.mark.parametrize(
    ("layout", "strides"), [("offset", (12, 4, 1)), ("sliced", (39, 13, 2)), ("padded", (27, 9, 1))]
)
def test_a_tensor_begins_at_its_offset(layout: Any, strides: tuple[int, ...]) -> None:
    x = _case((2, 3, 4), layout, offset=5).make()
    assert (x.stride(), x.storage_offset()) == (strides, 5)
    assert _case((2, 3, 4), layout, offset=0).make().storage_offset() == 0


@pytest.mark.parametrize(("dim", "strides"), [(0, (0, 4, 1)), (1, (4, 0, 1)), (2, (3, 1, 0))])
def test_a_tensor_is_expanded_in_any_dimension(dim: int, strides: tuple[int, ...]) -> None:
    assert _case((2, 3, 4), "expanded", dim=dim).make().stride() == strides


@pytest.mark.parametrize(
    ("layout", "dim", "strides"),
    [
        ("outermost", 1, (4, 8, 1)),
        ("outermost", 2, (3, 1, 6)),
        ("innermost", 1, (12, 1, 3)),
        ("innermost", 2, (12, 4, 1)),
        ("narrowed", 1, (20, 4, 1)),
        ("narrowed", 2, (18, 6, 1)),
    ],
)
def test_a_dimension_can_be_moved_or_narrowed(layout: Any, dim: int, strides: tuple[int, ...]) -> None:
    assert _case((2, 3, 4), layout, dim=dim, offset=2).make().stride() == strides


@pytest.mark.parametrize(
    ("layout", "dim", "kept"),
    [("outermost", 0, True), ("outermost", 1, False), ("innermost", 0, False), ("innermost", 1, True)],
)
def test_sorted_indices_need_their_dimension_in_place(layout: Any, dim: int, kept: bool) -> None:
    if not kept:
        with pytest.raises(ValueError, match="does not keep the order"):
            IndexCase((3, 5), 9, layout=layout, dim=dim, order="sorted")
        return
    indices = IndexCase((3, 5), 9, layout=layout, dim=dim, order="sorted").make()
    assert torch.equal(indices, indices.sort(-1).values)


@pytest.mark.parametrize("layout", ["contiguous", "sliced", "padded"])
def test_offsets_go_from_0_to_the_end(layout: Any) -> None:
    offsets = IndexCase((3, 5), 9, layout=layout, order="offsets").make()
    assert offsets[:, 0].tolist() == [0] * 3
    assert offsets[:, -1].tolist() == [8] * 3
    assert torch.equal(offsets, offsets.sort(-1).values)
    assert IndexCase((1,), 1, order="offsets").make().tolist() == [0]
    with pytest.raises(ValueError, match="1 offsets cannot go from 0 to 8"):
        IndexCase((1,), 9, order="offsets")


@pytest.mark.parametrize("layout", ["contiguous", "sliced", "outermost"])
def test_indices_that_differ_have_padding_in_between(layout: Any) -> None:
    padded = IndexCase((3, 40), 90, instead=-1, layout=layout, order="permutation")
    plain, mixed = replace(padded, instead=None).make(), padded.make()
    assert bool(((mixed == plain) | (mixed == -1)).all())
    assert 20 < int((mixed == -1).sum()) < 60  # a third of 120
    for row in mixed:
        kept = row[row != -1].tolist()
        assert len(set(kept)) == len(kept)
    assert IndexCase((0,), 5, instead=-1, order="permutation").make().shape == (0,)
    for order in ("sorted", "offsets"):
        with pytest.raises(ValueError, match=f"instead=-1 and order='{order}' do not go together"):
            replace(padded, layout="contiguous", order=order)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_has_both_signs(dtype: torch.dtype) -> None:
    numbers = TensorCase((9, 30), dtype, fill="special").make()
    assert set(numbers[numbers.isnan()].signbit().tolist()) == {False, True}
    few = next(
        case
        for seed in range(40)
        if (case := TensorCase((8,), dtype, fill="lone", seed=seed))
        and bool((case.make().isnan() & case.make().signbit()).any())
    )
    assert "TensorCase" in few.code  # a literal in bfloat16 would lose the sign


@pytest.mark.parametrize("wrong", [{"offset": -1}, {"dim": 2}, {"dim": -1}], ids=str)
def test_a_place_that_there_is_not_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(TensorCase((2, 3)), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(IndexCase((2, 3), 5), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: _case((2,), "contiguous", fill="specal"),
            "fill is 'specal'; .* one of: exact, normal, .*unit$",
        ),
        (lambda: _case((2, 3), "transpozed"), "layout is 'transpozed'; it must be one of: contiguous, .*padded$"),
        (lambda: _indices(layout="slice"), "layout is 'slice'"),
        (lambda: _indices(order="sort"), "order is 'sort'; .*: any, sorted, offsets, permutation$"),
    ],
)
def test_a_misspelt_name_is_refused_with_those_that_there_are(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize(("layout", "offset"), [("contiguous", 0), ("offset", 1), ("sliced", 1)])
def test_scalars_have_an_offset_too(layout: Any, offset: int) -> None:
    assert _case((), layout).make().storage_offset() == offset


def _every(holds: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    return bool(holds(x.double()).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fill_is_what_its_name_says(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    made = {fill: TensorCase((400,), dtype, fill=fill).make() for fill in (*ROW_FILLS, "squarable", "positive", "unit")}
    assert set(made["exact"].tolist()) == set(map(float, range(-4, 5)))
    assert abs(float(made["normal"].double().std()) - 1) < 0.1
    assert _every(lambda x: (x.abs() >= 2**-8.01) & (x.abs() <= 2**8.01), made["wide"])
    assert float(made["wide"].double().abs().max() / made["wide"].double().abs().min()) > 2**12
    assert {math.copysign(1, value) for value in made["zero"].tolist()} == {-1, 1}
    assert _every(lambda x: x == 0, made["zero"])
    assert _every(lambda x: x >= 2**-10, made["positive"])
    assert 0.7 < float(made["positive"].double().mean()) < 0.9
    assert _every(lambda x: (x >= 2**-10) & (x < 1), made["unit"])
    assert 0.45 < float(made["unit"].double().mean()) < 0.55
    assert _every(lambda x: (x.abs() > info.max / 5) & torch.isfinite(x), made["huge"])
    assert _every(lambda x: (x.abs() >= info.tiny) & (x.abs() < 10 * info.tiny), made["tiny"])
    assert _every(lambda x: x.abs() <= info.tiny, made["subnormal"])
    assert bool(((made["subnormal"].double().abs() < info.tiny) & (made["subnormal"] != 0)).any())
    for special, largest in ((made["special"].tolist(), [info.max]), (made["squarable"].tolist(), [])):
        assert {math.copysign(1, value) for value in special if value == 0} == {-1, 1}
        assert any(value != value for value in special)
        for value in (math.inf, *largest, info.tiny, info.tiny * info.eps, info.eps, 1, 1 + info.eps, 1 - info.eps / 2):
            assert {value, -value} <= set(special)
    assert info.max not in made["squarable"].abs().tolist()
    assert _every(torch.isfinite, made["range"])
    exponents = made["range"].double().abs().log2()
    lowest, highest = math.log2(info.tiny * info.eps), math.log2(info.max)
    assert all(
        float(((exponents >= low) & (exponents <= low + (highest - lowest) / 4)).double().mean()) > 0.15
        for low in torch.linspace(lowest, highest, 5)[:4].tolist()
    )
    assert 0.5 <= float((made["masked"] == -math.inf).double().mean()) < 1
    assert _every(lambda x: x.isfinite() | (x == -math.inf), made["masked"])


def test_each_row_has_one_number_that_is_not_finite() -> None:
    x = TensorCase((2, 9, 5), fill="lone", seed=4).make().view(18, 5)
    places = [tuple((~row.isfinite()).nonzero().flatten().tolist()) for row in x]
    kinds = [str(float(row[place])) for row, (place,) in zip(x, places, strict=True)]
    assert {(place, kind) for (place,), kind in zip(places, kinds, strict=True)} == {
        (place, kind) for place in (0, 2, 4) for kind in ("nan", "inf", "-inf")
    }
    assert all(TensorCase(shape, fill="lone").make().shape == shape for shape in ((0,), (3, 0), (0, 3), (1,)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_numbers_are_numbers_of_the_dtype(dtype: torch.dtype) -> None:
    exact = torch.tensor(special_numbers(dtype), dtype=torch.float64)
    assert torch.equal(exact.to(dtype).double().nan_to_num(), exact.nan_to_num())


def test_a_case_makes_the_same_values_again_and_a_seed_changes_them() -> None:
    case = TensorCase((9,))
    assert same_bits(case.make(), case.make())
    assert not same_bits(case.make(), TensorCase((9,), seed=1).make())


def test_masked_rows_begin_or_end_with_masked_numbers_or_have_some() -> None:
    masked = TensorCase((3, 1000), fill="masked").make() == -math.inf
    beginning, some, end = (row.long() for row in masked)
    assert beginning[:500].all()
    assert beginning.diff().max() == 0  # no number is masked after one that is not
    assert 0.2 < float(some.double().mean()) < 0.3
    assert end[501:].all()
    assert end.diff().min() == 0
    assert not masked.all(1).any()
