"""Calls as code: the printed program makes the same tensors bit for bit, and runs the call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor

from trifold.spec import (
    DTYPES,
    LAYOUTS,
    ROW_FILLS,
    ROW_LAYOUTS,
    AliasCase,
    Call,
    IndexCase,
    Limits,
    TensorCase,
    shapes,
    tensors,
)
from trifold.verification.tolerance import same_bits

deterministic = settings(
    derandomize=True, database=None, deadline=None, max_examples=100, suppress_health_check=list(HealthCheck)
)
SMALL = Limits(elements=24)


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


def test_code_of_a_call_compares_what_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def by(step: float) -> Any:
        return lambda op: lambda params, x: [each.add_(step) for each in params] and None

    monkeypatch.setattr("trifold.load", by(1.0))
    monkeypatch.setattr("trifold.reference", by(0.5))
    call = Call(([TensorCase((1,)), TensorCase((30,), seed=3)], TensorCase((2,), seed=4)))
    exec(call.code("thing", writes=[(0, 0), (0, 1)]), {})
    printed = capsys.readouterr().out
    assert "1 of 1 elements differ, most by 0.5" in printed
    assert "30 of 30 elements differ, most by 0.5" in printed


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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (3,), (3, 3), (2, 3, 4), (2, 0)], ids=str)
def test_an_argument_starts_where_another_one_does_in_another_order(
    shape: tuple[int, ...], layout: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = Call((TensorCase(shape, layout=layout, seed=3), AliasCase(0, turned=True)))
    (x, y), _ = call.arguments()
    assert (y.shape, y.data_ptr(), y.storage_offset()) == (x.shape, x.data_ptr(), x.storage_offset())
    if layout == "contiguous" and shape == (3, 3):
        assert same_bits(y, x.t())
    elif layout == "expanded" and len(shape) > 1 and x.numel() > 0:
        assert y is x  # its storage has too few elements
    (_, printed), _ = _run(call.code("thing"), monkeypatch, capsys)
    assert same_bits(printed, y)


def test_an_alias_is_later_or_in_another_order() -> None:
    with pytest.raises(ValueError, match="together"):
        AliasCase(0, 1, turned=True)


def test_code_of_a_call_whose_tensors_are_far_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = Call((TensorCase((2, 3)), 0.5), apart=(0, 2**32))
    (x, _), _ = _run(call.code("thing"), monkeypatch, capsys)
    assert x.stride() == (2**32, 1)
    assert same_bits(x.contiguous(), call.arguments()[0][0])


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
