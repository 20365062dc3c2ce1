"""A kernel that is set up before earlier ones have ended still reads what they wrote, and later ones what it wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import trifold

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]

N = 1 << 16
REPLAYS = 50

Sigmoid = Callable[[Tensor], Tensor]
Work = Callable[[Sigmoid, Tensor], tuple[Tensor, Tensor]]


def after_kernels(sigmoid: Sigmoid, x: Tensor) -> tuple[Tensor, Tensor]:
    """Between torch's kernels, of which the last overwrites what was read."""
    doubled = x * 2
    first = sigmoid(doubled)
    doubled.fill_(9.0)
    return first, sigmoid(doubled)


def after_copies(sigmoid: Sigmoid, x: Tensor) -> tuple[Tensor, Tensor]:
    """Behind a copy and a memset, which are no kernels."""
    copied = torch.empty_like(x)
    copied.copy_(x)
    first = sigmoid(copied)
    copied.zero_()
    return first, sigmoid(copied)


def after_a_fork(sigmoid: Sigmoid, x: Tensor) -> tuple[Tensor, Tensor]:
    """The point where two streams join."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(main)
    twice = x * 2
    with torch.cuda.stream(side):
        thrice = x * 3
    main.wait_stream(side)
    return sigmoid(twice), sigmoid(thrice)


def after_itself(sigmoid: Sigmoid, x: Tensor) -> tuple[Tensor, Tensor]:
    """Behind early kernels: each waits for all before the one before it."""
    y = sigmoid(x)
    for _ in range(20):
        y = sigmoid(y)
    return y, sigmoid(x)


WORK = (after_kernels, after_copies, after_a_fork, after_itself)


def right(sigmoid: Sigmoid, work: Work, x: Tensor) -> None:
    got, expected = work(sigmoid, x), work(torch.sigmoid, x)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("work", WORK)
def test_behind_work_that_still_runs(work: Work) -> None:
    sigmoid = trifold.load("sigmoid")
    for _ in range(REPLAYS):
        x = torch.randn(N, device="cuda")
        torch.cuda._sleep(100_000)  # clock cycles: all of the rest is in the queue before the first of it starts
        right(sigmoid, work, x)


@pytest.mark.parametrize("work", WORK)
def test_in_a_graph(work: Work) -> None:
    sigmoid = trifold.load("sigmoid")
    x = torch.randn(N, device="cuda")
    right(sigmoid, work, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work(sigmoid, x)
    for _ in range(REPLAYS):
        x.normal_()
        graph.replay()
        for got, expected in zip(results, work(torch.sigmoid, x), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
