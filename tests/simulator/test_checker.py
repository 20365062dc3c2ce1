"""Ordered accesses and races, as the checker distinguishes them, in kernels written by hand.

Each right kernel has a wrong one beside it that lacks what orders the accesses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.simulator.handwritten import here
from trifold import _simulator as sim
from trifold.findings import Finding, KernelFault
from trifold.simulator.uninitialised import fill

Kernel = Callable[..., Any]

WARP = 0xFFFFFFFF


def run(kernel: Kernel, *arguments: Any, grid: int = 1, block: int = 1, **more: Any) -> None:
    """Launches ``kernel`` on NumPy arrays with all checks, or the ones given."""
    checks = more.pop("checks", sim.CHECK_ALL & ~sim.CHECK_LINT)
    names = tuple(inspect.signature(kernel).parameters)[: len(arguments)]
    flags = more.pop("flags", (0,) * len(arguments))
    wrapped = sim.wrap_arguments(names, arguments, flags, checks)
    generator = inspect.isgeneratorfunction(kernel)
    extents = (grid, 1, 1), (block, 1, 1)
    options = None, more.pop("cooperative", False)
    seed = more.pop("seed", 0)
    sim.launch(kernel, generator, kernel.__name__, *extents, more.pop("shared", 0), wrapped, checks, seed, *options)
    assert not more


def found(kernel: Kernel, *arguments: Any, **more: Any) -> Finding:
    """The finding that the launch must end with."""
    with pytest.raises(KernelFault) as caught:
        run(kernel, *arguments, **more)
    (finding,) = caught.value.findings
    return finding


def zeros(size: int = 64, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.zeros(size, dtype)


# Barriers and rendezvous --------------------------------------------------------------------------------------------


def reversal(x: Any, barrier: bool) -> Iterator[Any]:
    tile = sim.shared.array(64, np.float32)
    i = sim.threadIdx.x
    tile[i] = x[i]
    if barrier:
        yield here()
    x[i] = tile[63 - i]
    yield here()


def test_a_barrier_orders_the_accesses_of_a_block() -> None:
    x = np.arange(64, dtype=np.float32)
    run(reversal, x, True, block=64)
    np.testing.assert_array_equal(x, np.arange(64)[::-1])


def test_without_a_barrier_a_thread_reads_what_another_has_not_written() -> None:
    finding = found(reversal, zeros(), False, block=64)
    assert (finding.kind, finding.memory) == ("uninitialised read", "shared")
    assert (finding.array, finding.index) == ("tile", (63,))


def test_a_race_names_both_accesses() -> None:
    def shift(x: Any) -> None:
        i = sim.threadIdx.x
        x[i] = 1.0
        x[i + 1] = 2.0

    finding = found(shift, zeros(), grid=2, block=2)
    later, earlier = finding.accesses
    first = inspect.getsourcelines(shift)[1]
    assert (finding.kind, finding.severity, finding.array, finding.index) == ("race", "error", "x", (1,))
    assert (later.thread, later.operation, later.line) == ((1, 0, 0), "write", first + 2)
    assert (earlier.thread, earlier.operation, earlier.line) == ((0, 0, 0), "write", first + 3)
    assert later.interval == earlier.interval == 0
    assert later.file == earlier.file == __file__
    assert "x[i + 1] = 2.0" in finding.message and "syncthreads" in finding.message


def test_the_interval_of_an_earlier_block_is_known() -> None:
    def late(x: Any) -> Iterator[Any]:
        yield here()
        yield here()
        if sim.threadIdx.x == sim.blockIdx.x:
            x[0] = sim.blockIdx.x
        yield here()

    later, earlier = found(late, zeros(), grid=2, block=2).accesses
    assert (later.block, later.interval) == ((1, 0, 0), 2)
    assert (earlier.block, earlier.interval) == ((0, 0, 0), 2)


def pass_on(x: Any, masks: tuple[int, ...]) -> Iterator[Any]:
    """Lane 0 writes; lane 2 reads after rendezvous of these lanes, one after the other."""
    lane = sim.threadIdx.x
    if lane == 0:
        x[0] = 1.0
    for mask in masks:
        if mask >> lane & 1:
            yield here(), sim.OP_SYNCWARP, mask
    if lane == 2:
        x[1] = x[0]


@pytest.mark.parametrize(
    ("masks", "ordered"),
    [
        ((WARP,), True),
        ((0b111,), True),
        ((0b101,), True),
        ((0b011, 0b110), True),  # lane 1 passes on what it knows
        ((0b110, 0b011), False),  # lane 1 learns it too late
        ((0b011,), False),
        ((0b110,), False),
    ],
)
def test_a_rendezvous_orders_the_lanes_of_its_mask(masks: tuple[int, ...], ordered: bool) -> None:
    # Of the order in which lanes run only the rendezvous are certain: with seeds each wrong mask is found in one.
    if ordered:
        for seed in range(8):
            run(pass_on, zeros(), masks, block=32, seed=seed)
        return
    kinds = []
    for seed in range(8):
        try:
            run(pass_on, zeros(), masks, block=32, seed=seed)
        except KernelFault as fault:
            kinds += [finding.kind for finding in fault.findings]
    assert set(kinds) == {"race"}


def test_a_rendezvous_of_the_lanes_that_are_left_says_nothing_of_the_others() -> None:
    def early_exit(x: Any) -> Iterator[Any]:
        lane = sim.threadIdx.x
        if lane == 31:
            x[0] = 1.0
            return
        yield here(), sim.OP_SYNCWARP, WARP >> 1
        if lane == 0:
            x[1] = x[0]

    assert found(early_exit, zeros(), block=32, seed=3).kind == "race"


def test_two_warps_race_after_a_rendezvous_of_each() -> None:
    def two_warps(x: Any) -> Iterator[Any]:
        i = sim.threadIdx.x
        if i == 0:
            x[0] = 1.0
        yield here(), sim.OP_SYNCWARP, WARP
        if i == 32:
            x[1] = x[0]

    finding = found(two_warps, zeros(), block=64)
    assert {access.thread[0] for access in finding.accesses} == {0, 32}


def test_a_barrier_of_the_grid_orders_blocks() -> None:
    def neighbours(x: Any, y: Any, sync: bool) -> Iterator[Any]:
        i = sim.grid(1)
        x[i] = 1.0
        if sync:
            yield here(), sim.OP_GRID_SYNC
        y[i] = x[(i + 32) % 64]

    run(neighbours, zeros(), zeros(), True, grid=2, block=32, cooperative=True)
    assert found(neighbours, zeros(), zeros(), False, grid=2, block=32, cooperative=True).kind == "race"


# Fences and atomics -------------------------------------------------------------------------------------------------


def last_block(x: Any, partial: Any, count: Any, total: Any, fence: str) -> Iterator[Any]:
    """The last block to come adds up what all have left in ``partial``."""
    is_last = sim.shared.array(1, np.int32)
    thread, block, blocks = sim.threadIdx.x, sim.blockIdx.x, sim.gridDim.x
    partial[block * 4 + thread] = x[sim.grid(1)]
    if fence == "each":
        sim.threadfence()
    elif fence == "block":
        sim.threadfence_block()
    elif fence == "first" and thread == 0:
        sim.threadfence()
    yield here()
    if thread == 0:
        if fence == "after barrier":
            sim.threadfence()
        is_last[0] = sim.atomic.add(count, 0, 1) == blocks - 1
    yield here()
    if is_last[0] and thread == 0:
        for i in range(4 * blocks):
            total[0] += partial[i]
        count[0] = 0


@pytest.mark.parametrize(
    ("fence", "ordered"),
    [
        ("each", True),
        ("after barrier", True),  # thread 0's fence covers what the barrier made known to it
        ("none", False),
        ("block", False),
        ("first", False),  # covers only thread 0's own write
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_last_block_knows_all_blocks_through_fence_and_atomic(fence: str, ordered: bool, seed: int) -> None:
    x = np.arange(20, dtype=np.float32)
    total = zeros(1)
    arguments = x, zeros(20), zeros(1, np.int32), total, fence
    if ordered:
        run(last_block, *arguments, grid=5, block=4, seed=seed)
        assert total[0] == x.sum()
    else:
        finding = found(last_block, *arguments, grid=5, block=4, seed=seed)
        assert (finding.kind, finding.array) == ("race", "partial")


def chain(x: Any, flags: Any, fences: tuple[bool, ...]) -> Iterator[Any]:
    """Block 0 writes, each block waits for the one before and passes on; the last one reads."""
    block = sim.blockIdx.x
    if block == 0:
        x[0] = 7.0
    else:
        while sim.atomic.add(flags, block - 1, 0) == 0:
            yield here(), sim.OP_POLL
    if block == len(fences):
        x[1] = x[0]
    else:
        if fences[block]:
            sim.threadfence()
        sim.atomic.exch(flags, block, 1)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_knowledge_is_passed_on_from_block_to_block(seed: int) -> None:
    x = zeros(2)
    run(chain, x, zeros(3, np.int32), (True, True, True), grid=4, seed=seed)
    assert x[1] == 7
    for missing in range(3):
        fences = tuple(i != missing for i in range(3))
        assert found(chain, zeros(2), zeros(3, np.int32), fences, grid=4, seed=seed).array == "x"


def test_a_flag_that_is_polled_without_an_atomic_is_a_race() -> None:
    def polled(x: Any, flag: Any) -> Iterator[Any]:
        if sim.blockIdx.x == 0:
            x[0] = 1.0
            sim.threadfence()
            sim.atomic.exch(flag, 0, 1)
        else:
            while flag[0] == 0:
                yield here(), sim.OP_POLL

    finding = found(polled, zeros(1), zeros(1, np.int32), grid=2)
    assert (finding.array, {access.operation for access in finding.accesses}) == ("flag", {"read", "atomic"})


def test_a_fence_of_block_scope_orders_within_its_block() -> None:
    def flag_in_block(x: Any, flag: Any, grid_wide: bool) -> Iterator[Any]:
        writer = sim.grid(1) == 0
        reader = sim.grid(1) == (64 if grid_wide else 32)
        if writer:
            x[0] = 1.0
            sim.threadfence_block()
            sim.atomic.exch(flag, 0, 1)
        if reader:
            while sim.atomic.add(flag, 0, 0) == 0:
                yield here(), sim.OP_POLL
            x[1] = x[0]

    run(flag_in_block, zeros(2), zeros(1, np.int32), False, grid=2, block=64)
    assert found(flag_in_block, zeros(2), zeros(1, np.int32), True, grid=2, block=64).array == "x"


def test_what_one_lane_acquires_its_warp_knows_after_a_rendezvous() -> None:
    def one_lane_waits(x: Any, flag: Any, sync: bool) -> Iterator[Any]:
        lane = sim.threadIdx.x
        if sim.blockIdx.x == 0:
            x[lane] = 1.0
            sim.threadfence()
            yield here(), sim.OP_SYNCWARP, WARP  # and lane 0 releases what all lanes fenced
            if lane == 0:
                sim.atomic.exch(flag, 0, 1)
            return
        if lane == 0:
            while sim.atomic.add(flag, 0, 0) == 0:
                yield here(), sim.OP_POLL
        if sync:
            yield here(), sim.OP_SYNCWARP, WARP
        x[64 + lane] = x[31 - lane]

    run(one_lane_waits, zeros(96), zeros(1, np.int32), True, grid=2, block=32)
    assert found(one_lane_waits, zeros(96), zeros(1, np.int32), False, grid=2, block=32).kind == "race"


def test_a_lock_orders_those_who_hold_it() -> None:
    def locked(x: Any, lock: Any, fences: bool) -> Iterator[Any]:
        while sim.atomic.cas(lock, 0, 0, 1) != 0:
            yield here(), sim.OP_POLL
        x[0] += 1.0
        if fences:
            sim.threadfence()
        sim.atomic.exch(lock, 0, 0)

    x = zeros(1)
    run(locked, x, zeros(1, np.int32), True, grid=8)
    assert x[0] == 8
    assert found(locked, zeros(1), zeros(1, np.int32), False, grid=8).array == "x"


def test_atomics_never_race_with_atomics_but_with_everything_else() -> None:
    def histogram(bins: Any, then: str) -> Iterator[Any]:
        i = sim.threadIdx.x
        sim.atomic.add(bins, 0, 1)
        if then == "barrier":
            yield here()
        if then != "nothing" and i == 63:  # the last one to add: its own atomic is the latest
            bins[1] = bins[0]
        yield here()

    bins = zeros(2, np.int32)
    run(histogram, bins, "nothing", block=64)
    run(histogram, bins, "barrier", block=64)
    assert bins[1] == 128
    finding = found(histogram, bins, "read", block=64)
    assert [access.operation for access in finding.accesses] == ["read", "atomic"]


def test_a_compare_and_swap_that_fails_is_a_read() -> None:
    def peek(x: Any, y: Any, expected: int) -> None:
        i = sim.threadIdx.x
        y[i] = x[0]
        sim.atomic.cas(x, 0, expected, 5)

    run(peek, zeros(1, np.int32), zeros(8, np.int32), 1, block=8)
    assert found(peek, zeros(1, np.int32), zeros(8, np.int32), 0, block=8).array == "x"


# Memory -------------------------------------------------------------------------------------------------------------


def test_views_that_overlap_are_one_memory() -> None:
    def copy(x: Any, y: Any) -> None:
        i = sim.threadIdx.x
        y[i] = x[i]

    both = zeros(9)
    run(copy, both[:4], both[4:8], block=4)
    finding = found(copy, both[:8], both[1:], block=8)
    assert (finding.kind, finding.array, finding.index) == ("race", "x", (1,))
    run(copy, both, both, block=8)  # element by element the same thread


def test_bytes_of_one_word_are_apart_and_the_word_overlaps_them() -> None:
    def bytes_and_word(words: Any, octets: Any, with_word: bool) -> None:
        i = sim.threadIdx.x
        octets[i] = i
        if with_word and i == 3:
            words[0] = 0

    words = zeros(1, np.int32)
    run(bytes_and_word, words, words.view(np.uint8), False, block=4)
    assert found(bytes_and_word, words, words.view(np.uint8), True, block=4).kind == "race"


def test_a_narrow_view_of_shared_memory_is_told_apart_after_wide_accesses() -> None:
    def narrow(y: Any, one_each: bool) -> Iterator[Any]:
        tile = sim.shared.array(4, np.int32)
        i = sim.threadIdx.x
        if i == 0:
            for j in range(4):
                tile[j] = 0
        yield here()
        octets = tile.view(np.uint8)
        octets[i if one_each else i // 2] = i
        yield here()
        y[i] = octets[i]

    run(narrow, zeros(16, np.uint8), True, block=16)
    assert found(narrow, zeros(16, np.uint8), False, block=16).array == "tile"


def test_shared_memory_is_fresh_for_each_block() -> None:
    def leftover(x: Any) -> Iterator[Any]:
        tile = sim.shared.array(4, np.float32)
        i = sim.threadIdx.x
        if sim.blockIdx.x == 0:
            tile[i] = 1.0
        yield here()
        x[i] = tile[i]

    run(leftover, zeros(), grid=1, block=4)
    finding = found(leftover, zeros(), grid=2, block=4)
    assert (finding.kind, finding.accesses[0].block) == ("uninitialised read", (1, 0, 0))


def test_local_memory_is_fresh_for_each_thread() -> None:
    def partly(x: Any, size: int) -> None:
        window = sim.local.array(4, np.float32)
        for j in range(size):
            window[j] = 1.0
        x[sim.threadIdx.x] = window[3]

    run(partly, zeros(), 4, block=4)
    finding = found(partly, zeros(), 3, block=4)
    assert (finding.kind, finding.memory) == ("uninitialised read", "local")
    assert (finding.array, finding.index) == ("window", (3,))


def test_an_output_is_not_read_before_it_is_written() -> None:
    def accumulate(x: Any, first: bool) -> None:
        i = sim.threadIdx.x
        if first:
            x[i] = 0.0
        x[i] += 1.0

    uninitialised = 2
    run(accumulate, zeros(4), True, block=4, flags=(uninitialised, 0))
    run(accumulate, zeros(4), False, block=4)
    assert found(accumulate, zeros(4), False, block=4, flags=(uninitialised, 0)).kind == "uninitialised read"


def test_checks_are_chosen() -> None:
    def unordered(x: Any) -> None:
        sim.shared.array(1, np.float32)[0]
        x[0] = sim.threadIdx.x

    assert found(unordered, zeros(), block=2).kind == "uninitialised read"
    assert found(unordered, zeros(), block=2, checks=sim.CHECK_RACE).kind == "race"
    run(unordered, zeros(), block=2, checks=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int32])
def test_an_array_that_an_earlier_launch_wrote_in_part_is_uninitialised_in_the_rest(dtype: Any) -> None:
    def copy(x: Any, y: Any) -> None:
        i = sim.threadIdx.x
        y[i] = x[i]

    filled = 16
    x = np.empty(4, dtype)
    fill(x)
    run(copy, np.ones(3, dtype), x, block=3, flags=(0, 2))
    run(copy, x, zeros(4, dtype), block=3, flags=(filled, 0))
    finding = found(copy, x, zeros(4, dtype), block=4, flags=(filled, 0))
    assert (finding.kind, finding.array, finding.index) == ("uninitialised read", "x", (3,))
