"""The timing methods give readings, and one competitor's failure is its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
import torch

from trifold.bench.timing import (
    GRAPH_CALLS,
    GRAPH_SECONDS,
    Competitor,
    Failure,
    Method,
    Timing,
    fewer_calls,
    measure,
    rotation,
)

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
L2 = 60 << 20


def competitor(*thunks: Callable[[], object]) -> Competitor:
    return lambda: list(thunks)


def adding(device: str) -> Competitor:
    x = torch.randn(64, device=device)
    return competitor(lambda: x + x, lambda: x + 1)


def raising() -> Sequence[Callable[[], object]]:
    raise ValueError("no such kernel\nwith details")


METHODS = [
    pytest.param("cpu", "cpu"),
    pytest.param("host", "cpu"),
    *[pytest.param(method, "cuda", marks=(pytest.mark.gpu, needs_gpu)) for method in ("graph", "events", "host")],
]


@pytest.mark.parametrize(("method", "device"), METHODS)
def test_every_method_gives_positive_readings(method: Method, device: str) -> None:
    results = measure(method, {"a": adding(device), "b": adding(device)}, calls=4, seconds=0.01, slow_after=60)
    assert list(results) == ["a", "b"]
    for timing in results.values():
        assert isinstance(timing, Timing)
        assert min(timing.readings) > 0
        assert len(timing.readings) >= 10
        assert not timing.slow
        assert timing.prepared is not None
        assert timing.prepared > 0
    first, second = (timing.readings for timing in results.values() if isinstance(timing, Timing))
    assert len(first) == len(second), "the k-th readings are of one round"


def failing_later() -> Callable[[], object]:
    calls = iter(range(8))

    def thunk() -> object:
        return next(calls)  # the warm calls succeed, a later reading raises StopIteration

    return thunk


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param(raising, "ValueError: no such kernel", id="in preparing"),
        pytest.param(competitor(lambda: 1 / 0), "ZeroDivisionError: division by zero", id="in warming"),
        pytest.param(competitor(failing_later()), "StopIteration", id="in a reading"),
    ],
)
def test_a_competitor_that_raises_fails_alone(wrong: Competitor, reason: str) -> None:
    results = measure("host", {"before": adding("cpu"), "wrong": wrong, "after": adding("cpu")}, seconds=0.01)
    assert results["wrong"] == Failure(reason)
    assert isinstance(results["before"], Timing)
    assert isinstance(results["after"], Timing)


@pytest.mark.gpu
@needs_gpu
def test_a_call_that_cannot_be_captured_fails_alone() -> None:
    wrong = competitor(lambda: torch.cuda.synchronize())
    results = measure("graph", {"wrong": wrong, "after": adding("cuda")}, calls=2, seconds=0.01)
    assert isinstance(results["wrong"], Failure)
    assert isinstance(results["after"], Timing)
    assert torch.isfinite(torch.randn(8, device="cuda")).all()  # the generator has left the capture


def test_a_slow_competitor_is_called_three_times_only() -> None:
    calls: list[int] = []

    def slow() -> None:
        calls.append(1)
        time.sleep(0.01)

    results = measure("cpu", {"slow": competitor(slow), "quick": adding("cpu")}, seconds=0.01, slow_after=0.005)
    slow_result = results["slow"]
    assert isinstance(slow_result, Timing)
    assert slow_result.slow
    assert len(slow_result.readings) == 1
    assert slow_result.median >= 0.01
    assert len(calls) == 3


def test_competitors_take_turns() -> None:
    order: list[str] = []
    names = ("a", "b", "c")
    competitors = {name: competitor(lambda name=name: order.append(name)) for name in names}  # type: ignore[misc]
    measure("host", competitors, seconds=0.0)
    readings = [name for name, previous in zip(order[1:], order, strict=False) if name != previous]
    assert "".join(readings[-9:]) == "abcabcabc"


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(1, id="smaller than any cache line: as many calls as a graph may hold"),
        pytest.param(1 << 16, id="small"),
        pytest.param(1 << 21, id="dozens of sets"),
        pytest.param(3 << 30, id="one set exceeds the L2 by itself"),
    ],
)
def test_rotation_exceeds_twice_the_l2_or_fills_the_graph(size: int) -> None:
    turns = rotation(size, L2)
    assert turns.sets * size > 2 * L2 or turns.sets == GRAPH_CALLS
    assert 1 <= turns.sets <= turns.calls <= GRAPH_CALLS
    assert turns.calls % turns.sets == 0


@pytest.mark.parametrize(
    ("calls", "sets", "seconds", "expected"),
    [
        pytest.param(32, 1, 0.002, 32, id="as quick as a copy"),
        pytest.param(32, 1, 2 * GRAPH_SECONDS, 32, id="half as quick"),
        pytest.param(32, 1, 8 * GRAPH_SECONDS, 4, id="slow"),
        pytest.param(32, 1, 1000 * GRAPH_SECONDS, 1, id="very slow: one call"),
        pytest.param(60, 5, 8 * GRAPH_SECONDS, 5, id="a call for each buffer set at least"),
        pytest.param(60, 5, 3 * GRAPH_SECONDS, 20, id="as many for each"),
    ],
)
def test_the_graph_of_a_slow_competitor_holds_fewer_calls(calls: int, sets: int, seconds: float, expected: int) -> None:
    assert fewer_calls(calls, sets, seconds) == expected


def test_what_the_first_call_takes_is_told_apart() -> None:
    """torch.compile compiles in its first call: that time is shown, and in no reading."""
    waits = iter([0.05])

    def compiles_once() -> None:
        time.sleep(next(waits, 0.0))

    result = measure("cpu", {"compiled": competitor(compiles_once)}, seconds=0.0)["compiled"]
    assert isinstance(result, Timing)
    assert result.prepared is not None
    assert result.prepared >= 0.05
    assert max(result.readings) < 0.05
