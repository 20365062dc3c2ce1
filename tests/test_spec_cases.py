"""Inputs as data: a case makes what it says, prints what it makes, and the strategies reach every kind of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    FILLS,
    LAYOUTS,
    ROW_FILLS,
    ROW_LAYOUTS,
    AliasCase,
    Call,
    Gradients,
    IndexCase,
    Limits,
    Result,
    Spec,
    TensorCase,
    aliases,
    alike,
    any_size,
    elementwise,
    elementwise_bad_calls,
    elementwise_edges,
    elementwise_smooth,
    shapes,
    sizes,
    tensors,
)
from trifold.spec.elementwise import large_backward
from trifold.spec.fills import special_numbers
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


@pytest.mark.parametrize("wrong", [{"offset": -1}, {"dim": 2}, {"dim": -1}], ids=str)
def test_a_place_that_there_is_not_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(TensorCase((2, 3)), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(IndexCase((2, 3), 5), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("layout", "offset"), [("contiguous", 0), ("offset", 1), ("sliced", 1)])
def test_scalars_have_an_offset_too(layout: Any, offset: int) -> None:
    assert _case((), layout).make().storage_offset() == offset


def _every(holds: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    return bool(holds(x.double()).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fill_is_what_its_name_says(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    made = {fill: TensorCase((400,), dtype, fill=fill).make() for fill in (*ROW_FILLS, "squarable")}
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
    assert 0.15 < float((made["masked"] == -math.inf).double().mean()) < 0.35
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
    monkeypatch.setattr("trifold.reference", lambda op: lambda *args, **kwargs: args[0] + torch.rand(()), raising=False)
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
    result = first.make() + torch.rand(())
    assert printed == f"result    {result}\nexpected  {result}\nno element differs\n"


def test_code_of_a_call_asks_for_gradients(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("trifold.load", lambda op: lambda x, factors, weight: 2 * x * factors[1] * weight)
    monkeypatch.setattr("trifold.reference", lambda op: lambda x, factors, weight: x * factors[1] * weight)
    call = Call((TensorCase((1,)), [TensorCase((1,)), TensorCase((1,), seed=3)]), {"weight": TensorCase((1,), seed=4)})
    exec(call.code("thing", gradients=[(0,), (1, 1), ("weight",)]), {})
    printed = capsys.readouterr().out
    assert printed.count("1 of 1 elements differ") == 4  # the result, and three gradients


def test_code_of_a_tensor_that_is_passed_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small, large = TensorCase((3,), seed=1), TensorCase((50,), seed=2)
    call = Call((TensorCase((2,)),), {"small": small, "large": large})
    (_, a, b), _ = _run(call.code("thing"), monkeypatch, capsys)
    assert same_bits(a, small.make())
    assert same_bits(b, large.make())


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("layout", ROW_LAYOUTS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (30,)], ids=str)
def test_an_argument_is_another_one_or_overlaps_it(
    shape: tuple[int, ...], layout: Any, shift: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = TensorCase(shape, torch.float16, layout, seed=3)
    call = Call((case, 0.5, AliasCase(0, shift)))
    (x, _, y), kwargs = call.arguments()
    assert (x is y) == (shift == 0)
    assert not kwargs
    assert same_bits(x, case.make())
    assert (y.shape, y.stride(), y.storage_offset()) == (x.shape, x.stride(), x.storage_offset() + shift)
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert bool(y.isfinite().all())
    (printed, _, other), _ = _run(call.code("thing"), monkeypatch, capsys)
    assert same_bits(printed, x)
    assert same_bits(other, y)
    assert (other is printed) == (shift == 0)


def test_an_argument_that_is_passed_by_name_is_another_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = Call((TensorCase((3,)),), {"up": AliasCase(0, 1)})
    (x,), kwargs = call.arguments()
    assert same_bits(kwargs["up"][:-1], x[1:])
    (_, up), _ = _run(call.code("thing"), monkeypatch, capsys)
    assert same_bits(up, kwargs["up"])


def test_what_replaces_a_tensor_replaces_it_where_it_stands_again() -> None:
    args = [x, same, shifted] = Call((TensorCase((3,)), AliasCase(0), AliasCase(0, 2))).arguments()[0]
    call = Call((TensorCase((3,)), AliasCase(0), AliasCase(0, 2)))
    leaf = x.detach().requires_grad_()
    replaced = call.with_aliases([leaf, *args[1:]])
    assert replaced[0] is replaced[1] is leaf
    assert replaced[2] is shifted
    assert same is x


@pytest.mark.parametrize(
    "args",
    [(AliasCase(0),), (AliasCase(1), TensorCase((3,))), (0.5, AliasCase(0)), (TensorCase((3,)), AliasCase(2))],
    ids=["itself", "what comes after", "a number", "nothing"],
)
def test_an_alias_of_no_tensor_is_refused(args: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="TensorCase"):
        Call(args)


def test_an_alias_before_the_beginning_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        AliasCase(0, -1)


def test_code_on_a_gpu_has_the_place_that_it_says() -> None:
    call = Call((TensorCase((2,), layout="offset", offset=3), AliasCase(0, 1), IndexCase((2,), 4)))
    lines = call.code("thing", "cuda").splitlines()
    assert ".to('cuda')[:5][3:].view((2,))" in lines[3]
    assert lines[4] == "x1 = x0.as_strided(x0.shape, x0.stride(), x0.storage_offset() + 1)"
    assert lines[5].endswith(".to('cuda')")
    assert ".make('cuda', room=7)" in Call((TensorCase((99,)), AliasCase(0, 7))).code("thing", "cuda")


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
@given(st.data())
def test_as_many_elements_are_drawn_as_are_asked_for(data: st.DataObject) -> None:
    fewest = data.draw(st.integers(0, 5000))
    limits = Limits(data.draw(st.integers(fewest, 2 * fewest + 1)), fewest)
    for dims in (1, 2, 4):
        assert limits.fewest <= math.prod(data.draw(shapes(limits, max_dims=dims))) <= limits.elements
    assert limits.fewest <= data.draw(any_size(limits)) <= limits.elements
    assert all(limits.fewest <= n <= limits.elements for n in sizes(limits))


def test_sizes_that_no_list_has_are_drawn_in_every_power_of_two() -> None:
    numbers: set[int] = set()

    @settings(deterministic, max_examples=300, phases=[Phase.generate])
    @given(any_size(Limits()))
    def draw(n: int) -> None:
        numbers.add(n)

    draw()
    unlisted = numbers - set(sizes(Limits()))
    assert {n.bit_length() for n in unlisted} >= set(range(4, 18))


@pytest.mark.parametrize("limits", [{"elements": 3, "fewest": 4}, {"elements": 3, "fewest": -1}], ids=str)
def test_limits_that_nothing_can_hold_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="fewest"):
        Limits(**limits)


def test_one_call_of_four_has_a_tensor_twice_or_two_that_overlap() -> None:
    calls: list[Call] = []

    @settings(deterministic, max_examples=600, phases=[Phase.generate])
    @given(elementwise(3)(Limits(elements=600)))
    def draw(call: Call) -> None:
        calls.append(call)

    draw()
    drawn = [value for call in calls for value in call.args if isinstance(value, AliasCase)]
    assert 1 / 12 < len(drawn) / len(calls) < 1 / 3
    assert {value.of for value in drawn} == {0, 1}
    assert {value.shift == 0 for value in drawn} == {True, False}


@deterministic
@given(aliases(2))
def test_aliases_are_of_arguments_before_them(alias: AliasCase) -> None:
    assert 0 <= alias.of < 2


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
    "six dimensions": lambda case: len(case.shape) == 6,
    "one beyond a block": lambda case: case.shape == (257,),
    **{layout: (lambda case, layout=layout: case.layout == layout and len(case.shape) > 1) for layout in LAYOUTS},  # type: ignore[misc]
    **{fill: (lambda case, fill=fill: case.fill == fill) for fill in FILLS},  # type: ignore[misc]
    **{str(dtype): (lambda case, dtype=dtype: case.dtype == dtype) for dtype in DTYPES},  # type: ignore[misc]
    **{f"offset by {n}": (lambda case, n=n: case.layout != "contiguous" and case.offset == n) for n in range(1, 16)},  # type: ignore[misc]
    **{
        f"{layout}, {n}": (lambda case, layout=layout, n=n: case.layout == layout and case.dim == n)  # type: ignore[misc]
        for layout in ("expanded", "outermost", "innermost", "narrowed")
        for n in range(layout == "outermost", 3)
    },
}


@pytest.fixture(scope="module")
def drawn() -> list[TensorCase]:
    """One tensor of each of 180 calls for each layout, in short searches, as those of a verification are: in one long
    search, hypothesis varies earlier calls."""
    cases: list[TensorCase] = []
    for number in range(18 * len(LAYOUTS)):

        @seed(number)
        @settings(deterministic, derandomize=False, max_examples=10, phases=[Phase.generate])
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


def _forgets_the_end(x: Tensor) -> Tensor:
    """The gradient of the last element is that of the first one, as where an index wraps."""
    forget = torch.ones_like(x)
    forget[-1] = 0
    return x * x.detach() * forget


@pytest.mark.parametrize("shape", [(64,), (64, 3)], ids=str)
def test_gradients_of_both_ends_are_compared(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    large_backward(torch.mul, torch.mul, shapes=[shape] * 2, end=4, device="cpu")
    with pytest.raises(AssertionError, match="gradient 0"):
        large_backward(_forgets_the_end, lambda x: x * x.detach(), shapes=[shape], end=4, device="cpu")


def test_shapes_of_as_many_elements_are_among_the_mistakes() -> None:
    shapes = [
        [tuple(x.shape) for x in bad.make("cpu")[0] if isinstance(x, Tensor)] for bad in elementwise_bad_calls("x", "y")
    ]
    assert [(2, 3), (3, 2)] in shapes
    assert [(6,), (2, 3)] in shapes


def test_a_spec_that_checks_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="writes into an argument has no gradients"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), writes=("x",), gradients=Gradients(arguments=("x",)))
    with pytest.raises(ValueError, match="needs a reason"):
        Result(tie=torch.eq)
    with pytest.raises(ValueError, match="tensor argument"):
        Spec(calls=elementwise(1), smooth=[Call((3.0,))])
    with pytest.raises(ValueError, match="gradient_scale"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), gradient_working_scale=lambda reference, *x: x[0])
    with pytest.raises(ValueError, match="'gradients'"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), computed_by_torch={"gradients": "sums"})
    with pytest.raises(ValueError, match="reason for 'result 0'"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), computed_by_torch={"result 0": ""})
    with pytest.raises(ValueError, match="claim rounded_once"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), rounding_error=lambda reference, *x: x[0])
    with pytest.raises(ValueError, match="claim gradients_rounded_once"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), gradient_rounding_error=lambda reference, *x: x[0])
    with pytest.raises(ValueError, match="multiple_reason"):
        Spec(calls=elementwise(1), smooth=elementwise_smooth(1), multiple=8.0)


def test_a_factor_that_leaves_no_number_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"limits.over\(60\): .*largest_factor, which is 50 here"):
        Limits(50, fewest=1).over(60)
    assert Limits(50, fewest=1).over(50) == Limits(1, 1)
