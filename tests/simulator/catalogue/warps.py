"""Warp operations: shuffles, votes, match, rendezvous of part of a warp."""

import numpy as np
from numba import cuda, float32, int32

from tests.simulator.catalogue.case import ANY, read, right, waits, write, wrong

WARP = 32
FULL = 0xFFFFFFFF
LOW_HALF = 0x0000FFFF


def _run_warp_sums(kernel):
    x = np.arange(4 * WARP, dtype=np.float32) % 11
    sums = np.zeros(4, dtype=np.float32)
    kernel[2, 2 * WARP](x, sums)
    np.testing.assert_array_equal(sums, x.reshape(4, WARP).sum(axis=1))


@right(run=_run_warp_sums)
@cuda.jit
def butterfly_sum(x, sums):
    i = cuda.grid(1)
    v = x[i]
    distance = 16
    while distance > 0:
        v += cuda.shfl_xor_sync(FULL, v, distance)
        distance //= 2
    if cuda.laneid == 0:
        sums[i // WARP] = v


@wrong("warp divergence", None, None, waits("shfl_xor_sync", "first", 16), run=_run_warp_sums)
@cuda.jit
def shuffle_with_half_a_mask(x, sums):
    """All 32 lanes call the shuffle; the mask names 16 of them."""
    i = cuda.grid(1)
    v = x[i]
    distance = 16
    while distance > 0:
        v += cuda.shfl_xor_sync(LOW_HALF, v, distance)  # first
        distance //= 2
    if cuda.laneid == 0:
        sums[i // WARP] = v


@wrong(
    "warp divergence", None, None, waits("shfl_down_sync", "first", 0), waits("use", "second", 0), run=_run_warp_sums
)
@cuda.jit
def shuffle_in_a_branch(x, sums):
    """The lower half asks the upper half, which never comes."""
    i = cuda.grid(1)
    lane = cuda.laneid
    v = x[i]
    distance = 16
    while distance > 0:
        if lane < distance:
            v += cuda.shfl_down_sync(FULL, v, distance)  # first
        distance //= 2
    if lane == 0:
        sums[i // WARP] = v  # second


def _run_broadcast(kernel):
    x = np.arange(WARP, dtype=np.int32)
    y = np.zeros(WARP, dtype=np.int32)
    kernel[1, WARP](x, y)
    np.testing.assert_array_equal(y, [5] * 16 + [21] * 16)


@right(run=_run_broadcast)
@cuda.jit
def broadcast_in_each_half(x, y):
    """Each half of the warp shuffles on its own, with a mask that names it."""
    lane = cuda.laneid
    if lane < 16:
        y[lane] = cuda.shfl_sync(LOW_HALF, x[lane], 5)
    else:
        y[lane] = cuda.shfl_sync(FULL ^ LOW_HALF, x[lane], 21)


@wrong("warp divergence", None, None, waits("shfl_sync", "first", 0), waits("use", "first", 0), run=_run_broadcast)
@cuda.jit
def broadcast_from_a_lane_outside_the_mask(x, y):
    lane = cuda.laneid
    if lane < 16:
        y[lane] = cuda.shfl_sync(LOW_HALF, x[lane], 21)  # first
    else:
        y[lane] = cuda.shfl_sync(FULL ^ LOW_HALF, x[lane], 5)  # first


def _run_tail_sum(kernel):
    n = 20
    x = np.arange(n, dtype=np.int32)
    total = np.zeros(1, dtype=np.int32)
    kernel[1, WARP](x, total, n)
    assert total[0] == x.sum()


@right(run=_run_tail_sum)
@cuda.jit
def tail_sum_with_zeros(x, total, n):
    i = cuda.grid(1)
    v = x[i] if i < n else int32(0)
    distance = 16
    while distance > 0:
        v += cuda.shfl_down_sync(FULL, v, distance)
        distance //= 2
    if i == 0:
        total[0] = v


@wrong("warp divergence", None, None, waits("shfl_down_sync", "first", 8), waits("use", "second", 0), run=_run_tail_sum)
@cuda.jit
def tail_sum_after_early_return(x, total, n):
    i = cuda.grid(1)
    if i >= n:
        return
    v = x[i]
    distance = 16
    while distance > 0:
        v += cuda.shfl_down_sync(FULL, v, distance)  # first
        distance //= 2
    if i == 0:
        total[0] = v  # second


@right(run=_run_tail_sum)
@cuda.jit
def tail_sum_with_ballot_mask(x, total, n):
    """The lanes that go on are voted for while all are there; the sum walks over them."""
    i = cuda.grid(1)
    mask = cuda.ballot_sync(FULL, i < n)
    if i >= n:
        return
    v = x[i]
    s = 0
    for lane in range(cuda.popc(mask)):
        s += cuda.shfl_sync(mask, v, lane)
    if i == 0:
        total[0] = s


def _run_exchange(kernel):
    x = np.arange(WARP, dtype=np.float32)
    y = np.zeros(WARP, dtype=np.float32)
    kernel[1, WARP](x, y)
    np.testing.assert_array_equal(y, x.reshape(2, 16)[:, ::-1].reshape(-1))


@right(run=_run_exchange)
@cuda.jit
def exchange_in_each_half(x, y):
    """Each half reverses itself through shared memory; the halves need not meet."""
    staged = cuda.shared.array(WARP, float32)
    lane = cuda.threadIdx.x
    if lane < 16:
        staged[lane] = x[lane]
        cuda.syncwarp(LOW_HALF)
        y[lane] = staged[15 - lane]
    else:
        staged[lane] = x[lane]
        cuda.syncwarp(FULL ^ LOW_HALF)
        y[lane] = staged[47 - lane]


@wrong("race", "staged", "shared", write("first", 7), read("second", 8), run=_run_exchange,
       or_kinds=("uninitialised read",))  # fmt: skip
@cuda.jit
def exchange_without_syncwarp(x, y):
    """The upper lanes of a half read what the lower ones wrote; the lower ones have no partner to wait for."""
    staged = cuda.shared.array(WARP, float32)
    lane = cuda.threadIdx.x
    half = lane // 16 * 16
    partner = half + 15 - lane % 16
    staged[lane] = x[lane]  # first
    if lane % 16 >= 8:
        y[lane] = staged[partner]  # second
    cuda.syncwarp()
    y[lane] = staged[partner]


@wrong("race", "staged", "shared", write("first", 15), read("second", 0), run=_run_exchange)
@cuda.jit
def exchange_with_a_vote_between(x, y):
    """All lanes come to the vote, but a vote orders no accesses of memory."""
    staged = cuda.shared.array(WARP, float32)
    lane = cuda.threadIdx.x
    staged[lane] = x[lane]  # first
    cuda.any_sync(FULL, True)
    y[lane] = staged[lane // 16 * 16 + 15 - lane % 16]  # second


@wrong("race", "staged", "shared", write("first", 15), read("second", 16), run=_run_exchange,
       or_kinds=("uninitialised read",))  # fmt: skip
@cuda.jit
def exchange_beyond_its_half(x, y):
    """The rendezvous is of each half, but the partner is in the other."""
    staged = cuda.shared.array(WARP, float32)
    lane = cuda.threadIdx.x
    staged[lane] = x[lane]  # first
    if lane < 16:
        cuda.syncwarp(LOW_HALF)
        y[lane] = staged[lane]
    else:
        cuda.syncwarp(FULL ^ LOW_HALF)
        y[lane] = staged[31 - lane]  # second


@wrong("warp divergence", None, None, waits("syncwarp", "first", 16), run=_run_exchange)
@cuda.jit
def syncwarp_mask_misses_its_own_lane(x, y):
    staged = cuda.shared.array(WARP, float32)
    lane = cuda.threadIdx.x
    half = lane // 16 * 16
    staged[lane] = x[lane]
    cuda.syncwarp(LOW_HALF)  # first
    y[lane] = staged[half + 15 - lane % 16]


def _run_compact(kernel):
    x = np.arange(4 * WARP, dtype=np.int32) * 7 % 10
    y = np.full(x.size, -1, dtype=np.int32)
    count = np.zeros(1, dtype=np.int32)
    kernel[2, 2 * WARP](x, y, count)
    kept = x[x > 4]
    assert count[0] == kept.size
    np.testing.assert_array_equal(np.sort(y[: kept.size]), np.sort(kept))
    assert (y[kept.size :] == -1).all()


@right(run=_run_compact)
@cuda.jit
def compact_by_ballot(x, y, count):
    """One atomic a warp: the lanes that keep their element find their places by counting votes below them."""
    v = x[cuda.grid(1)]
    lane = cuda.laneid
    keep = v > 4
    votes = cuda.ballot_sync(FULL, keep)
    base = 0
    if lane == 0:
        base = cuda.atomic.add(count, 0, cuda.popc(votes))
    base = cuda.shfl_sync(FULL, base, 0)
    if keep:
        y[base + cuda.popc(votes & ((1 << lane) - 1))] = v


@wrong("race", "count", "global", write("first", 0), read("second", 32), run=_run_compact, any_array=True)
@cuda.jit
def compact_with_plain_counter(x, y, count):
    v = x[cuda.grid(1)]
    lane = cuda.laneid
    keep = v > 4
    votes = cuda.ballot_sync(FULL, keep)
    base = 0
    if lane == 0:
        base = count[0]  # second
        count[0] = base + cuda.popc(votes)  # first
    base = cuda.shfl_sync(FULL, base, 0)
    if keep:
        y[base + cuda.popc(votes & ((1 << lane) - 1))] = v


@wrong("race", "y", "global", write("first", ANY), write("first", ANY), run=_run_compact)
@cuda.jit
def compact_to_one_place_a_warp(x, y, count):
    """The place is the warp's base: the count of votes below the lane is forgotten."""
    v = x[cuda.grid(1)]
    keep = v > 4
    votes = cuda.ballot_sync(FULL, keep)
    base = 0
    if cuda.laneid == 0:
        base = cuda.atomic.add(count, 0, cuda.popc(votes))
    base = cuda.shfl_sync(FULL, base, 0)
    if keep:
        y[base] = v  # first


def _run_match(kernel):
    x = np.arange(2 * WARP, dtype=np.int32) * 5 % 8
    hist = np.zeros(8, dtype=np.int32)
    kernel[1, 2 * WARP](x, hist)
    np.testing.assert_array_equal(hist, np.bincount(x, minlength=8))


@right(run=_run_match)
@cuda.jit
def histogram_by_match(x, hist):
    """Lanes with the same key elect the lowest of them, which counts for all."""
    v = x[cuda.grid(1)]
    same = cuda.match_any_sync(FULL, v)
    if same & ((1 << cuda.laneid) - 1) == 0:
        cuda.atomic.add(hist, v, cuda.popc(same))


@wrong("race", "hist", "global", write("first", ANY), read("first", ANY), run=_run_match)
@cuda.jit
def histogram_by_match_without_atomic(x, hist):
    """One lane a key writes, but each warp has one."""
    v = x[cuda.grid(1)]
    same = cuda.match_any_sync(FULL, v)
    if same & ((1 << cuda.laneid) - 1) == 0:
        hist[v] += cuda.popc(same)  # first


def _run_partial_warp(kernel):
    n = 2 * 40
    x = np.arange(n, dtype=np.int32)
    y = np.zeros(n, dtype=np.int32)
    kernel[2, 40](x, y)
    want = np.concatenate([x[k : k + size].sum(keepdims=True).repeat(size) for k, size in _warps_of(n, 40)])
    np.testing.assert_array_equal(y, want)


def _warps_of(n, block):
    return [(b + w, min(WARP, block - w)) for b in range(0, n, block) for w in range(0, block, WARP)]


@right(run=_run_partial_warp)
@cuda.jit
def sum_in_a_partial_warp(x, y):
    """Blocks of 40 threads: the second warp has 8 lanes, and its masks name these only."""
    i = cuda.grid(1)
    first = cuda.threadIdx.x // WARP * WARP
    size = min(WARP, cuda.blockDim.x - first)
    mask = (1 << size) - 1
    v = x[i]
    s = 0
    for lane in range(size):
        s += cuda.shfl_sync(mask, v, lane)
    y[i] = s


@right(run=_run_partial_warp)
@cuda.jit
def sum_in_a_partial_warp_through_shared_memory(x, y):
    staged = cuda.shared.array(40, int32)
    t = cuda.threadIdx.x
    first = t // WARP * WARP
    size = min(WARP, cuda.blockDim.x - first)
    staged[t] = x[cuda.grid(1)]
    cuda.syncwarp((1 << size) - 1)
    s = 0
    for k in range(first, first + size):
        s += staged[k]
    y[cuda.grid(1)] = s


def _run_vote(kernel):
    x = np.arange(2 * WARP, dtype=np.int32)
    y = np.zeros(2 * WARP, dtype=np.int32)
    kernel[1, 2 * WARP](x, y)
    np.testing.assert_array_equal(y, np.where(x < WARP, x, 2 * x))


@right(run=_run_vote)
@cuda.jit
def warps_take_different_ways(x, y):
    """A vote is uniform in its warp; each warp may go its own way."""
    i = cuda.grid(1)
    v = x[i]
    if cuda.all_sync(FULL, v >= WARP):
        v = cuda.shfl_sync(FULL, v, cuda.laneid) * 2
    y[i] = v


@wrong("warp divergence", None, None, waits("all_sync", "first", 0), waits("shfl_sync", "second", 1), run=_run_vote)
@cuda.jit
def vote_under_a_lane_condition(x, y):
    """Odd lanes go on to the shuffle; even ones wait for their votes."""
    i = cuda.grid(1)
    v = x[i]
    if v % 2 == 0 and cuda.all_sync(FULL, v >= WARP):  # first
        v *= 2
    y[i] = cuda.shfl_sync(FULL, v, cuda.laneid)  # second
