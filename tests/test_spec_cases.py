"""Inputs as data: a case makes what it says, prints what it makes, and the strategies reach every kind of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    FILLS,
    LAYOUTS,
    ROW_FILLS,
    ROW_LAYOUTS,
    Call,
    IndexCase,
    Limits,
    Spec,
    TensorCase,
    alike,
    elementwise,
    elementwise_edges,
    elementwise_smooth,
    shapes,
    sizes,
    tensors,
)
from trifold.spec.strategies import FEW
from trifold.verification.tolerance import same_bits

deterministic = settings(
    derandomize=True, database=None, deadline=None, max_examples=100, suppress_health_check=list(HealthCheck)
)
SMALL = Limits(elements=24)
SHAPES = [(), (0,), (1,), (5,), (2, 3), (3, 1, 2), (0, 4), (2, 0)]


def _case(shape: tuple[int, ...], layout: Any, **more: Any) -> TensorCase:
    return TensorCase(shape, layout=layout, **more)


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
        ("padded", (15, 5, 1), 1),
    ],
)
def test_layout_is_what_its_name_says(layout: Any, strides: tuple[int, ...], offset: int) -> None:
    x = _case((2, 3, 4), layout).make()
    assert x.stride() == strides
    assert x.storage_offset() == offset


@pytest.mark.parametrize(("layout", "offset"), [("contiguous", 0), ("offset", 1), ("sliced", 1)])
def test_scalars_have_an_offset_too(layout: Any, offset: int) -> None:
    assert _case((), layout).make().storage_offset() == offset


def _every(holds: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    return bool(holds(x.double()).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fill_is_what_its_name_says(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    made = {fill: TensorCase((400,), dtype, fill=fill).make() for fill in ROW_FILLS}
    assert set(made["exact"].tolist()) == set(map(float, range(-4, 5)))
    assert abs(float(made["normal"].double().std()) - 1) < 0.1
    assert _every(lambda x: (x.abs() >= 2**-8.01) & (x.abs() <= 2**8.01), made["wide"])
    assert float(made["wide"].double().abs().max() / made["wide"].double().abs().min()) > 2**12
    assert {math.copysign(1, value) for value in made["zero"].tolist()} == {-1, 1}
    assert _every(lambda x: x == 0, made["zero"])
    assert _every(lambda x: (x.abs() > info.max / 5) & torch.isfinite(x), made["huge"])
    assert _every(lambda x: (x.abs() >= info.tiny) & (x.abs() < 10 * info.tiny), made["tiny"])
    assert _every(lambda x: x.abs() <= info.tiny, made["subnormal"])
    assert bool(((made["subnormal"].double().abs() < info.tiny) & (made["subnormal"] != 0)).any())
    special = made["special"]
    assert bool(special.isnan().any())
    for value in (math.inf, -math.inf):
        assert value in special.tolist()
    assert {math.copysign(1, value) for value in special.tolist() if value == 0} == {-1, 1}
    assert 0.15 < float((made["masked"] == -math.inf).double().mean()) < 0.35
    assert _every(lambda x: x.isfinite() | (x == -math.inf), made["masked"])


def test_a_case_makes_the_same_values_again_and_a_seed_changes_them() -> None:
    case = TensorCase((9,))
    assert same_bits(case.make(), case.make())
    assert not same_bits(case.make(), TensorCase((9,), seed=1).make())


def _evaluated(code: str) -> Tensor:
    made = eval(code, {"torch": torch, "TensorCase": TensorCase, "IndexCase": IndexCase})
    assert isinstance(made, Tensor)
    return made


@deterministic
@given(case=tensors(shapes(SMALL)))
def test_code_makes_the_same_tensor_bit_for_bit(case: TensorCase) -> None:
    x, printed = case.make(), _evaluated(case.code)
    assert printed.dtype == x.dtype
    assert (printed.shape, printed.storage_offset()) == (x.shape, x.storage_offset())
    assert x.numel() == 0 or printed.stride() == x.stride()
    assert same_bits(printed, x)


@pytest.mark.parametrize("layout", ROW_LAYOUTS)
@pytest.mark.parametrize("fill", ROW_FILLS)
def test_code_of_each_kind(layout: Any, fill: Any) -> None:
    for dtype in DTYPES:
        for shape in ((), (5,), (2, 3), (40,)):
            case = TensorCase(shape, dtype, layout, fill, seed=3)
            assert same_bits(_evaluated(case.code), case.make()), case


@pytest.mark.parametrize("layout", ROW_LAYOUTS)
def test_indices_are_those_below_and_what_stands_instead(layout: Any) -> None:
    for shape in ((), (300,), (4, 3)):
        case = IndexCase(shape, 5, layout=layout, seed=1)
        x, mixed = case.make(), replace(case, instead=-100).make()
        assert (tuple(x.shape), x.dtype) == (shape, torch.int64)
        assert bool(((x >= 0) & (x < 5)).all())
        assert bool(((mixed == x) | (mixed == -100)).all())
        assert same_bits(_evaluated(case.code), x)
    wide = IndexCase((300,), 5, instead=-100, seed=1).make()
    assert set(wide.tolist()) == {*range(5), -100}


def test_a_large_tensor_is_printed_as_its_case() -> None:
    assert "TensorCase(" in TensorCase((1000,)).code
    assert "TensorCase(" not in TensorCase((5,)).code


def _run(code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[list[Any], str]:
    """Run a printed program: the arguments that its port gets, and what it prints."""
    seen: list[Any] = []

    def port(*args: Any, **kwargs: Any) -> Any:
        seen.extend([*args, *kwargs.values()])
        return args[0] + torch.rand(())

    monkeypatch.setattr("trifold.load", lambda op: port)
    exec(code, {})
    return seen, capsys.readouterr().out


@pytest.mark.parametrize("shape", [(3,), (30,)], ids=["printed", "made"])
def test_code_of_a_call_runs_it(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = TensorCase(shape, layout="sliced"), TensorCase(shape, torch.float64, seed=4)
    third = IndexCase(shape, 9)
    call = Call((first, 7, second, third), {"flag": True}, seed=11)
    (x, number, y, z, flag), printed = _run(call.code("thing"), monkeypatch, capsys)
    assert torch.equal(z, third.make())
    assert same_bits(x, first.make())
    assert same_bits(y, second.make())
    assert (number, flag) == (7, True)
    torch.manual_seed(11)
    assert printed == f"{first.make() + torch.rand(())}\n"


def test_code_of_a_tensor_that_is_passed_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small, large = TensorCase((3,), seed=1), TensorCase((50,), seed=2)
    call = Call((TensorCase((2,)),), {"small": small, "large": large})
    (_, a, b), _ = _run(call.code("thing"), monkeypatch, capsys)
    assert same_bits(a, small.make())
    assert same_bits(b, large.make())


def test_code_on_a_gpu_moves_the_tensors_there() -> None:
    assert "x0 = torch.tensor([" in Call((TensorCase((2,)),)).code("thing", "cuda")
    assert ".to('cuda')" in Call((TensorCase((2,)),)).code("thing", "cuda")


# ----------------------------------------------------------------------------------------------------- strategies


@deterministic
@given(st.data())
def test_limits_hold(data: st.DataObject) -> None:
    limits = Limits(elements=data.draw(st.sampled_from((1, 10, 600))))
    assert torch.Size(data.draw(shapes(limits))).numel() <= limits.elements
    call = data.draw(elementwise(2)(limits))
    assert all(value.make().numel() <= limits.elements for value in call.args if isinstance(value, TensorCase))
    assert all(n <= limits.elements for n in sizes(limits))


@deterministic
@given(cases=alike(3, Limits(elements=100)))
def test_alike_shares_shape_and_dtype_only(cases: tuple[TensorCase, ...]) -> None:
    assert len(cases) == 3
    assert len({(case.shape, case.dtype) for case in cases}) == 1


REACHED: dict[str, Callable[[TensorCase], bool]] = {
    "0-d": lambda case: case.shape == (),
    "empty": lambda case: 0 in case.shape,
    "three dimensions": lambda case: len(case.shape) == 3 and min(case.shape) > 1,
    "four dimensions": lambda case: len(case.shape) == 4,
    "one beyond a block": lambda case: case.shape == (257,),
    **{layout: (lambda case, layout=layout: case.layout == layout and len(case.shape) > 1) for layout in LAYOUTS},  # type: ignore[misc]
    **{fill: (lambda case, fill=fill: case.fill == fill) for fill in FILLS},  # type: ignore[misc]
    **{str(dtype): (lambda case, dtype=dtype: case.dtype == dtype) for dtype in DTYPES},  # type: ignore[misc]
}


@pytest.fixture(scope="module")
def drawn() -> list[TensorCase]:
    """What a verification draws: one tensor of each of 900 calls."""
    cases: list[TensorCase] = []

    @settings(deterministic, max_examples=900, phases=[Phase.generate])
    @given(elementwise(1)(Limits(elements=600)))
    def draw(call: Call) -> None:
        cases.append(call.args[0])

    draw()
    return cases


@pytest.mark.parametrize("kind", REACHED)
def test_every_kind_of_tensor_is_reached(kind: str, drawn: list[TensorCase]) -> None:
    assert any(REACHED[kind](case) for case in drawn)


def test_what_a_failure_shrinks_to_is_simple() -> None:
    case = find(tensors(shapes(Limits())), lambda case: True, settings=deterministic)
    assert case == TensorCase((1,), torch.float32, "contiguous", "exact", 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_edges_have_a_head_a_tail_and_neither(dtype: torch.dtype) -> None:
    vector = 16 // dtype.itemsize
    counts = {call.args[0].shape[0] for call in elementwise_edges(1) if call.dtype == dtype}
    assert {1, 2 * vector, 2 * vector + 1, 257, FEW + vector, FEW + vector - 1} <= counts
    layouts = {call.args[1].layout for call in elementwise_edges(2) if call.dtype == dtype}
    assert {"contiguous", "offset", "transposed"} <= layouts
    many = {tuple(x.layout for x in call.args) for call in elementwise_edges(2) if call.args[0].shape > (FEW,)}
    assert many == {("contiguous", "contiguous"), ("offset", "offset"), ("contiguous", "offset")}


def test_a_spec_that_checks_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="smooth"):
        Spec(calls=elementwise(1), smooth=())
    with pytest.raises(ValueError, match="tensor argument"):
        Spec(calls=elementwise(1), smooth=[Call((3.0,))])
    with pytest.raises(ValueError, match="gradient_scale"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), gradient_working_scale=lambda reference, *x: x[0])
    with pytest.raises(ValueError, match="multiple_reason"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), multiple=8.0)
