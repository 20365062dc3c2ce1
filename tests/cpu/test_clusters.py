"""Clusters of blocks: shared memory of other blocks, the cluster's barrier, and mistakes with either."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from tests.cpu.workspace import op_of
from trifold.cpu import runtime
from trifold.implementation import load_checked_port, load_port
from trifold.workspace import OpFiles

Clusters = Callable[[Tensor, int, int], Tensor]

THREADS = 32
SEEDS = 20
EXCHANGE, PLACES, REGISTERS, HALF, CENTRE, CENTRE_NOT_COOPERATIVE, EXCHANGE_ALONE, SEND, SEND_OUTSIDE = range(9)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> OpFiles:
    return op_of("clusters", tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def plain(files: OpFiles) -> Clusters:
    return load_port(files).function


@pytest.fixture(scope="module")
def checked(files: OpFiles) -> Clusters:
    return load_checked_port(files).function


@pytest.fixture(params=["plain", "checked"])
def either(request: pytest.FixtureRequest) -> Clusters:
    function: Clusters = request.getfixturevalue(request.param)
    return function


@contextmanager
def os_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def numbers(blocks: int) -> Tensor:
    return torch.arange(blocks * THREADS, dtype=torch.float32) % 61


def sums_of_clusters(x: Tensor, size: int) -> Tensor:
    of_cluster = x.reshape(-1, size, THREADS).sum(1, keepdim=True)
    return of_cluster.expand(-1, size, -1).flatten()


def of_next_block(x: Tensor, distance: int = 1) -> Tensor:
    return x.reshape(-1, 4, THREADS).roll(-distance, 1).flatten()


# ------------------------------------------------------------------------------------------------- right kernels


@pytest.mark.parametrize("size", range(1, 17))
def test_each_block_reads_and_writes_shared_memory_of_all_others(size: int, checked: Clusters, plain: Clusters) -> None:
    x = numbers(3 * size)
    expected = sums_of_clusters(x, size) + 2 * size * x
    for count in (1, 4):
        with os_threads(count):
            assert torch.equal(plain(x, EXCHANGE, size), expected)
    with runtime.schedules(SEEDS if size in (1, 2, 5, 16) else 2):
        assert torch.equal(checked(x, EXCHANGE, size), expected)


def test_many_clusters_run_on_several_threads_of_the_cpu(plain: Clusters) -> None:
    x = numbers(4000)
    with os_threads(4):
        assert torch.equal(plain(x, EXCHANGE, 4), sums_of_clusters(x, 4) + 8 * x)


def test_a_block_without_a_cluster_is_one_of_its_own(either: Clusters) -> None:
    x = numbers(5)
    assert torch.equal(either(x, EXCHANGE_ALONE, 1), 3 * x)


def test_a_cluster_is_a_box_of_the_grid(either: Clusters) -> None:
    """4 × 6 blocks in clusters of 2 × 3: the first has the blocks 0, 1, 4, 5, 8 and 9."""
    result = either(numbers(24), PLACES, 0).reshape(6, 4, THREADS)
    rank = torch.arange(6).reshape(3, 2).repeat(2, 2)
    number = torch.arange(4).reshape(2, 2).repeat_interleave(3, 0).repeat_interleave(2, 1)
    expected = (1000 * number + THREADS * rank)[:, :, None] + torch.arange(THREADS)
    assert torch.equal(result, expected.float())


@pytest.mark.parametrize("seed", range(3))
def test_registers_and_barriers_of_ptx(seed: int, either: Clusters) -> None:
    x = numbers(12)
    with runtime.schedules(1, seed=seed):
        assert torch.equal(either(x, REGISTERS, 0), of_next_block(x))


def test_the_barrier_does_not_wait_for_threads_that_have_exited(either: Clusters) -> None:
    x = numbers(8)
    with runtime.schedules(SEEDS):
        result = either(x, HALF, 0).reshape(-1, THREADS)[:, : THREADS // 2]
    assert torch.equal(result, of_next_block(x).reshape(-1, THREADS)[:, : THREADS // 2])


def test_the_barrier_of_the_grid_in_a_cooperative_launch(either: Clusters) -> None:
    x = numbers(16)
    with runtime.schedules(4):
        assert torch.allclose(either(x, CENTRE, 0), x - x.mean())


# ------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("which", "blocks", "size", "message"),
    [
        (SEND_OUTSIDE, 8, 0, "a rank that no block of the cluster has, for map_shared_rank, in kernel send_kernel"),
        (EXCHANGE, 7, 2, "the grid of 7 × 1 × 1 blocks cannot be divided into them"),
        (EXCHANGE, 34, 17, "a cluster has at most 16 blocks"),
        (EXCHANGE, 8, 0, "that is no block"),
        (SEND, 6, 0, "is launched in clusters of 4 × 1 × 1 blocks: the grid of 6 × 1 × 1 blocks"),
        (CENTRE_NOT_COOPERATIVE, 8, 0, "a barrier of the grid in a launch that is not cooperative"),
        (CENTRE, 5000, 0, "the device holds only 4224 of them at a time"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(which: int, blocks: int, size: int, message: str, either: Clusters) -> None:
    with pytest.raises(RuntimeError, match=re.escape(message)):
        either(numbers(blocks), which, size)
