"""Slots that circulate between the blocks of a cluster, operations in flight when a block ends, and discarded memory.

``python -m tests.cpu.test_cluster_rings`` runs the ring in 20 schedules.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trifold import KernelFault
from trifold.cpu import RawKernel, runtime
from trifold.findings import Finding

FILE = Path(__file__).with_name("cluster_rings.cu")
SOURCE = FILE.read_text(encoding="utf-8").splitlines()
MISTAKES = ("none", "no_release", "own_release", "no_wait_for_release", "no_fence", "no_await", "no_wait_for_others")
TILES, TILE, BLOCKS = 5, 64, 4


def run_ring(mistake: str, seed: int, *, checks: bool = True) -> None:
    x, y = np.arange(TILES * TILE, dtype=np.float32), np.zeros((BLOCKS, TILES * TILE), np.float32)
    with runtime.schedules(1, seed=seed):
        RawKernel(FILE, "ring", checks=checks)(BLOCKS, TILE, (x, y, MISTAKES.index(mistake)))
    assert np.array_equal(y, np.broadcast_to(2 * x, y.shape)), seed


def run_visit(mistake: str, seed: int, *, in_bulk: bool) -> np.ndarray:
    x, y = np.arange(1, 5, dtype=np.float32), np.zeros(1, np.float32)
    with runtime.schedules(1, seed=seed):
        RawKernel(FILE, "visit")(2, 32, (x, y, MISTAKES.index(mistake), int(in_bulk)))
    return y


def found(caught: pytest.ExceptionInfo[KernelFault]) -> Finding:
    (finding,) = caught.value.findings
    return finding


@pytest.mark.parametrize("seed", range(3))
def test_a_ring_over_a_cluster_is_right(seed: int) -> None:
    run_ring("none", seed)


def test_a_ring_over_a_cluster_runs_without_checks() -> None:
    run_ring("none", 0, checks=False)


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        ("no_release", "deadlock", r"mbarrier empty\[0\]: to phase 0, 0 of 4 arrivals"),
        ("own_release", "deadlock", r"to phase 0, 1 of 4 arrivals"),
        ("no_wait_for_release", "race", "Nothing orders the two"),
        ("no_fence", "race", "ordered, but not for the async proxy"),
        ("no_wait_for_others", "lifetime", "and its shared memory with it|exits without waiting"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_a_mistake_in_the_ring_is_found(mistake: str, kind: str, words: str, seed: int) -> None:
    with pytest.raises(KernelFault) as caught:
        run_ring(mistake, seed)
    finding = found(caught)
    assert finding.kind == kind, finding
    assert re.search(words, finding.message), finding


@pytest.mark.parametrize(("in_bulk", "instruction"), [(False, "st.async"), (True, "cp.async.bulk")])
def test_a_block_that_ends_while_another_one_sends_to_it(in_bulk: bool, instruction: str) -> None:
    for seed in range(3):
        assert run_visit("none", seed, in_bulk=in_bulk)[0] == 2
        with pytest.raises(KernelFault) as caught:
            run_visit("no_await", seed, in_bulk=in_bulk)
        finding = found(caught)
        (access,) = finding.accesses
        assert (finding.kind, access.instruction, access.block) == ("lifetime", instruction, (1, 0, 0)), finding
        # In some schedules block 1, whose memory is the source of a bulk copy, is the first to end.
        assert re.search(r"block \([01], 0, 0\) exits without having waited for it", finding.message), finding


def test_what_is_discarded_is_unwritten() -> None:
    x, memory = torch.ones(64), torch.zeros(96)
    y = memory[-memory.data_ptr() % 128 // 4 :][:64]
    RawKernel(FILE, "forget")(1, 64, (x, y, 0))
    assert torch.equal(y, 2 * x)
    with pytest.raises(KernelFault) as caught:
        RawKernel(FILE, "forget")(1, 64, (x, y, 1))
    finding = found(caught)
    assert finding.kind == "uninitialised read" and finding.array == "y"
    assert SOURCE[finding.accesses[0].line - 1].endswith("// read again")


def run_publish(way: int, seed: int) -> None:
    x, y, flags = np.arange(1, 9, dtype=np.float32), np.zeros(16, np.float32), np.zeros(8, np.uint32)
    with runtime.schedules(1, seed=seed):
        RawKernel(FILE, "publish")(8, 32, (x, y, flags, way))
    got = y[8:]
    expected = {0: 2 * np.roll(x, 4), 2: np.array([0, 2, 0, 0, 0, 10, 0, 0], np.float32)}[way]
    assert np.array_equal(got, expected)


def test_a_fence_of_the_scope_of_a_cluster_orders_its_blocks_alone() -> None:
    for seed in range(3):
        run_publish(0, seed)
        run_publish(2, seed)
        with pytest.raises(KernelFault) as caught:
            run_publish(1, seed)
        finding = found(caught)
        assert finding.kind == "race" and finding.array == "y"
        marks = {SOURCE[access.line - 1].split("// ")[-1] for access in finding.accesses}
        assert marks == {"published", "taken"}, finding


def test_the_two_halves_of_the_grids_barrier() -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(256, np.float32)
    kernel = RawKernel(FILE, "whole_grid")
    kernel(4, 32, (x, y, 1), cooperative=True)
    assert np.array_equal(y[128:], x + x[::-1])
    with pytest.raises(KernelFault) as caught:
        kernel(4, 32, (x, y, 0), cooperative=True)
    assert found(caught).kind == "race"


STEPS, SIZE = 12, 8


@given(
    barriers=st.lists(st.sampled_from([0, 0, 0, 1, 2, 2, 3, 4]), min_size=1, max_size=STEPS),
    exits=st.dictionaries(st.integers(0, BLOCKS * SIZE - 1), st.integers(0, STEPS), max_size=6),
    seed=st.sampled_from([0, 0, 0, 1]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
@example(barriers=[0] * STEPS, exits={BLOCKS * SIZE - 1: 3}, seed=0)
@example(barriers=[2] * 4 + [0] * 4 + [2] * 4, exits={9: 6}, seed=0)
@example(barriers=[0, 0, 3, 0, 0], exits={}, seed=0)
def test_a_barrier_is_passed_when_all_have_come(barriers: list[int], exits: dict[int, int], seed: int) -> None:
    """Without checks, where the threads of a cluster may switch to each other directly; some exit, but each block
    continues."""
    ends, late = np.full(BLOCKS * SIZE, STEPS, np.int32), np.zeros((3, BLOCKS * SIZE), np.int32)
    for thread, step in exits.items():
        if thread % SIZE != 0:
            ends[thread] = step
    with runtime.schedules(1, seed=seed):
        kernel = RawKernel(FILE, "steps", checks=False)
        kernel(3 * BLOCKS, SIZE, (np.array(barriers, np.int32), ends, len(barriers), late))
    assert not late.any()


if __name__ == "__main__":
    for each in range(20):
        run_ring("none", each)
    print("right in 20 schedules")
