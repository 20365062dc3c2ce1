"""A call with another one before one of its launches: its results and its gradients show memory that both write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from trifold.isolation import beside


@pytest.fixture(name="launch")
def _launch(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What an op calls in place of a launch."""
    hooks: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def before_each(op: Any, call: Callable[[], None]) -> Iterator[None]:
        hooks[:] = [call]
        yield

    monkeypatch.setattr(beside, "_before_each_launch", before_each)
    return lambda: hooks[0]()


def _runs(function: Callable[[Tensor], Tensor]) -> tuple[int, list[Tensor]]:
    """The number of results, and the results and gradients of all runs."""
    op: Any = SimpleNamespace(function=function)
    calls = [[[torch.full((3,), value, requires_grad=True)], {}] for value in (1.0, 2.0)]
    answer, tensors = beside.run_interleaved(op, calls, {}, {})
    assert answer["given"] == [[True, True], [True, True]]
    return answer["results"], list(tensors)


def test_the_results_of_an_op_that_keeps_a_buffer_are_those_of_the_other_call(launch: Callable[[], None]) -> None:
    kept = torch.zeros(3)

    def doubled(x: Tensor) -> Tensor:
        launch()
        kept.copy_(x.detach())
        launch()
        return x + kept

    count, (alone, _, interleaved, _) = _runs(doubled)
    assert (count, alone.tolist(), interleaved.tolist()) == (1, [2.0] * 3, [3.0] * 3)


def test_those_of_an_op_that_keeps_none_are_its_own(launch: Callable[[], None]) -> None:
    def doubled(x: Tensor) -> Tensor:
        launch()
        copy = x.detach().clone()
        launch()
        return x + copy

    _, (alone, _, interleaved, _) = _runs(doubled)
    assert torch.equal(alone, interleaved)


def test_an_error_of_the_other_call_is_raised(launch: Callable[[], None]) -> None:
    def only_ones(x: Tensor) -> Tensor:
        launch()
        launch()
        if float(x[0]) != 1.0:
            raise ValueError("no one")
        return x * 2

    with pytest.raises(ValueError, match="no one"):
        _runs(only_ones)
