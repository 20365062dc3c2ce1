"""Strategies draw every kind of tensor, within their limits; and what they draw shrinks to simple calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor

from trifold.errors import SpecError
from trifold.spec import (
    DTYPES,
    FILLS,
    LAYOUTS,
    AliasCase,
    BadCall,
    Call,
    Gradients,
    Limits,
    Property,
    Result,
    Sample,
    Spec,
    TensorCase,
    aliases,
    alike,
    any_size,
    elementwise,
    elementwise_bad_calls,
    elementwise_edges,
    elementwise_smooth,
    row_edges,
    shapes,
    sizes,
    tensors,
)
from trifold.spec.elementwise import large_backward
from trifold.spec.strategies import FEW

deterministic = settings(
    derandomize=True, database=None, deadline=None, max_examples=100, suppress_health_check=list(HealthCheck)
)


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
    edges = [call for call in elementwise_edges(2) if call.dtype == dtype]
    layouts = {call.args[1].layout for call in edges if not isinstance(call.args[1], AliasCase)}
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


def test_names_in_a_spec_are_those_that_there_are() -> None:
    unknown: Any = "gpu"
    with pytest.raises(ValueError, match=r"BadCall\(devices=...\) is 'gpu'; it must be one of: cpu, cuda"):
        BadCall("shape", lambda device: ([], {}), ("x",), devices=("cpu", unknown))
    with pytest.raises(ValueError, match=r"BadCall\(mentions=...\) is a sequence of words: \('x',\)"):
        BadCall("shape", lambda device: ([], {}), "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Property\(devices=...\) is 'gpu'"):
        Property("large", lambda function, device: None, "indices", devices=(unknown,))
    with pytest.raises(ValueError, match=r"Property\(implementations=...\) is 'gpu'; .*: prototype, port"):
        Property("large", lambda function, device: None, "indices", implementations=(unknown,))
    with pytest.raises(ValueError, match="order is 'gpu'; it must be one of: given, set, multiset"):
        Result(order=unknown)


def test_what_is_no_call_is_refused_with_its_field() -> None:
    pair: Any = (TensorCase((3,)),)
    with pytest.raises(TypeError, match=r"the call of Sample\('large', ...\) is \(TensorCase.* is no Call; write"):
        Sample("large", pair, "indices")
    for field in ("smooth", "edges", "gpu_edges"):
        other: Any = {field: [pair]}
        with pytest.raises(TypeError, match=rf"entry 0 of Spec\({field}=...\) is \(TensorCase"):
            Spec(calls=elementwise(1), **other)
    with pytest.raises(TypeError, match=r"Spec\(calls=...\) is just.*; it must be a function of limits"):
        Spec(calls=st.just(Call(pair)))  # type: ignore[arg-type]


@pytest.mark.parametrize("returned", [["x"], ("x", {}), (["x"], ["y"]), None, ([], {}, {})], ids=str)
def test_a_bad_call_without_both_kinds_of_arguments_is_refused(returned: Any) -> None:
    bad = BadCall("shape", lambda device: returned, ("x",))
    with pytest.raises(SpecError, match=r"BadCall\('shape', make=...\): make returned (.|\n)*and those by keyword"):
        bad.make("cpu")


def test_a_bad_call_whose_arguments_cannot_be_made_is_refused_with_its_name() -> None:
    bad = BadCall("shape", lambda device: ([torch.ones(2).reshape(3)], {}), ("x",))
    with pytest.raises(
        SpecError, match=r"BadCall\('shape', make=...\): make itself raises RuntimeError: shape .*\n.*only"
    ):
        bad.make("cpu")


def test_a_factor_that_leaves_no_number_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"limits.over\(60\): .*largest_factor, which is 50 here"):
        Limits(50, fewest=1).over(60)
    assert Limits(50, fewest=1).over(50) == Limits(1, 1)


@pytest.mark.parametrize("calls", [elementwise_edges(2, dtypes=[torch.float16]), row_edges(2, dtypes=[torch.float16])])
def test_edges_are_of_the_dtypes_that_are_asked_for(calls: tuple[Call, ...]) -> None:
    assert len(calls) > 10
    assert {case.dtype for call in calls for _, case in call.floating()} == {torch.float16}
