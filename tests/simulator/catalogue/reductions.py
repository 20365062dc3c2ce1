"""Sums: in a block by a tree, by warps, over blocks by the last block, over segments."""

import numpy as np
from numba import cuda, float32, int32

from tests.simulator.catalogue.case import ANY, atomic, read, right, waits, write, wrong

N = 128
WARPS = N // 32
HALF = N // 2
FULL = 0xFFFFFFFF


def _run_block_sums(kernel):
    x = np.arange(4 * N, dtype=np.float32) % 7
    sums = np.zeros(4, dtype=np.float32)
    kernel[4, N](x, sums)
    np.testing.assert_array_equal(sums, x.reshape(4, N).sum(axis=1))


@right(run=_run_block_sums)
@cuda.jit
def tree_sum(x, sums):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    s = N // 2
    while s > 0:
        if t < s:
            acc[t] += acc[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


@wrong("race", "acc", "shared", read("first", 0), write("first", 1), run=_run_block_sums)
@cuda.jit
def tree_sum_without_barrier_in_loop(x, sums):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    s = N // 2
    while s > 0:
        if t < s:
            acc[t] += acc[t + s]  # first
        s //= 2
    cuda.syncthreads()
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


@wrong("barrier divergence", None, None, waits("syncthreads", "first", 0), waits("syncthreads", "second", 64),
       run=_run_block_sums)  # fmt: skip
@cuda.jit
def tree_sum_with_barrier_under_condition(x, sums):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    s = N // 2
    while s > 0:
        if t < s:
            acc[t] += acc[t + s]
            cuda.syncthreads()  # first
        s //= 2
    cuda.syncthreads()  # second
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


@wrong("race", "acc", "shared", read("first", 0), write("second", 1), run=_run_block_sums)
@cuda.jit
def warp_tail_without_syncwarp(x, sums):
    """The last 32 elements are summed as on GPUs before Volta, whose warps ran in lockstep."""
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t < 64:
        acc[t] += acc[t + 64]
    cuda.syncthreads()
    if t < 32:
        acc[t] += acc[t + 32]  # second
        acc[t] += acc[t + 16]  # second
        acc[t] += acc[t + 8]  # second
        acc[t] += acc[t + 4]  # second
        acc[t] += acc[t + 2]  # second
        acc[t] += acc[t + 1]  # first, second
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


@right(run=_run_block_sums)
@cuda.jit
def warp_tail_with_syncwarp(x, sums):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t < 64:
        acc[t] += acc[t + 64]
    cuda.syncthreads()
    if t < 32:
        v = acc[t] + acc[t + 32]
        s = 16
        while s > 0:
            acc[t] = v
            cuda.syncwarp()
            v += acc[(t + s) % 64]
            cuda.syncwarp()
            s //= 2
        if t == 0:
            sums[cuda.blockIdx.x] = v


@wrong("race", "acc", "shared", read("first", 0), write("second", 16), run=_run_block_sums)
@cuda.jit
def warp_tail_with_one_syncwarp(x, sums):
    """A rendezvous after each write, none between a read and the next write of the same place."""
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t < 64:
        acc[t] += acc[t + 64]
    cuda.syncthreads()
    if t < 32:
        s = 32
        while s > 0:
            acc[t] += acc[t + s]  # first, second
            cuda.syncwarp()
            s //= 2
        if t == 0:
            sums[cuda.blockIdx.x] = acc[0]


@cuda.jit(device=True)
def warp_sum(v):
    v += cuda.shfl_down_sync(FULL, v, 16)
    v += cuda.shfl_down_sync(FULL, v, 8)
    v += cuda.shfl_down_sync(FULL, v, 4)
    v += cuda.shfl_down_sync(FULL, v, 2)
    v += cuda.shfl_down_sync(FULL, v, 1)
    return v


@right(run=_run_block_sums, helpers=(warp_sum,))
@cuda.jit
def sum_by_warps(x, sums):
    partial = cuda.shared.array(WARPS, float32)
    t = cuda.threadIdx.x
    v = warp_sum(x[cuda.grid(1)])
    if t % 32 == 0:
        partial[t // 32] = v
    cuda.syncthreads()
    if t < 32:
        v = partial[t] if t < WARPS else float32(0)
        v = warp_sum(v)
        if t == 0:
            sums[cuda.blockIdx.x] = v


@wrong(
    "uninitialised read", "partial", "shared", read("second", 1), or_kinds=("race",), run=_run_block_sums,
    helpers=(warp_sum,),
)  # fmt: skip
@cuda.jit
def sum_by_warps_without_barrier(x, sums):
    partial = cuda.shared.array(WARPS, float32)
    t = cuda.threadIdx.x
    v = warp_sum(x[cuda.grid(1)])
    if t % 32 == 0:
        partial[t // 32] = v  # first
    if t < 32:
        v = partial[t] if t < WARPS else float32(0)  # second
        v = warp_sum(v)
        if t == 0:
            sums[cuda.blockIdx.x] = v


def _run_grid_sum(kernel):
    x = np.arange(4 * N, dtype=np.float32) % 5
    partial = np.zeros(4, dtype=np.float32)
    finished = np.zeros(1, dtype=np.int32)
    total = np.zeros(1, dtype=np.float32)
    kernel[4, N](x, partial, finished, total)
    assert total[0] == x.sum()


@cuda.jit(device=True)
def block_sum(v):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = v
    cuda.syncthreads()
    s = N // 2
    while s > 0:
        if t < s:
            acc[t] += acc[t + s]
        cuda.syncthreads()
        s //= 2
    return acc[0]


@right(run=_run_grid_sum, helpers=(block_sum,))
@cuda.jit
def last_block_sum(x, partial, finished, total):
    """The threadFenceReduction sample: each block leaves its sum, the last one to finish adds them up."""
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    v = block_sum(x[cuda.grid(1)])
    if t == 0:
        partial[cuda.blockIdx.x] = v
        cuda.threadfence()
        last[0] = cuda.atomic.add(finished, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        s = float32(0)
        for b in range(cuda.gridDim.x):
            s += partial[b]
        total[0] = s


@right(run=_run_grid_sum)
@cuda.jit
def last_block_sum_where_all_threads_write_and_fence(x, partial, finished, total):
    """All threads write and fence, one counts after the barrier; all threads of the last block read."""
    last = cuda.shared.array(1, int32)
    acc = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    cuda.atomic.add(partial, cuda.blockIdx.x, x[cuda.grid(1)])
    cuda.threadfence()
    cuda.syncthreads()
    if t == 0:
        last[0] = cuda.atomic.add(finished, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0]:
        if t < 4:
            acc[t] = partial[t]
        cuda.syncthreads()
        if t == 0:
            total[0] = acc[0] + acc[1] + acc[2] + acc[3]


@wrong("race", "partial", "global", write("first", 0, 0), read("second", 0, 3), run=_run_grid_sum, helpers=(block_sum,))
@cuda.jit
def last_block_sum_without_fence(x, partial, finished, total):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    v = block_sum(x[cuda.grid(1)])
    if t == 0:
        partial[cuda.blockIdx.x] = v  # first
        last[0] = cuda.atomic.add(finished, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        s = float32(0)
        for b in range(cuda.gridDim.x):
            s += partial[b]  # second
        total[0] = s


@wrong("race", "partial", "global", write("first", 0, 0), read("second", 0, 3), run=_run_grid_sum, helpers=(block_sum,))
@cuda.jit
def last_block_sum_with_block_fence(x, partial, finished, total):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    v = block_sum(x[cuda.grid(1)])
    if t == 0:
        partial[cuda.blockIdx.x] = v  # first
        cuda.threadfence_block()
        last[0] = cuda.atomic.add(finished, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        s = float32(0)
        for b in range(cuda.gridDim.x):
            s += partial[b]  # second
        total[0] = s


@wrong("race", "partial", "global", write("first", 0, 0), read("second", 0, 3), run=_run_grid_sum, helpers=(block_sum,))
@cuda.jit
def last_block_sum_with_late_fence(x, partial, finished, total):
    """The fence comes after the count that announces the sum."""
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    v = block_sum(x[cuda.grid(1)])
    if t == 0:
        partial[cuda.blockIdx.x] = v  # first
        last[0] = cuda.atomic.add(finished, 0, 1) == cuda.gridDim.x - 1
        cuda.threadfence()
    cuda.syncthreads()
    if last[0] and t == 0:
        s = float32(0)
        for b in range(cuda.gridDim.x):
            s += partial[b]  # second
        total[0] = s


@wrong("race", "finished", "global", write("first", 0, 0), read("first", 0, 1), run=_run_grid_sum,
       helpers=(block_sum,))  # fmt: skip
@cuda.jit
def last_block_sum_without_atomic(x, partial, finished, total):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    v = block_sum(x[cuda.grid(1)])
    if t == 0:
        partial[cuda.blockIdx.x] = v
        cuda.threadfence()
        finished[0] += 1  # first
        last[0] = finished[0] == cuda.gridDim.x  # first
    cuda.syncthreads()
    if last[0] and t == 0:
        s = float32(0)
        for b in range(cuda.gridDim.x):
            s += partial[b]
        total[0] = s


@wrong("race", "total", "global", write("first", 0, 0), read("first", 0, 1), run=_run_grid_sum, helpers=(block_sum,))
@cuda.jit
def blocks_add_to_one_total(x, partial, finished, total):
    v = block_sum(x[cuda.grid(1)])
    if cuda.threadIdx.x == 0:
        total[0] += v  # first


@right(run=_run_grid_sum, helpers=(block_sum,))
@cuda.jit
def blocks_add_atomically(x, partial, finished, total):
    v = block_sum(x[cuda.grid(1)])
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, v)


def _run_segments(kernel):
    segment = np.arange(N, dtype=np.int32) // 11  # the sixth one lies in both blocks
    x = np.arange(N, dtype=np.float32)
    sums = np.zeros(12, dtype=np.float32)
    kernel[2, HALF](x, segment, sums)
    np.testing.assert_array_equal(sums, np.bincount(segment, weights=x))


@right(run=_run_segments)
@cuda.jit
def segmented_sum(x, segment, sums):
    """The first thread of each run in a block adds the run up."""
    ids = cuda.shared.array(HALF, int32)
    values = cuda.shared.array(HALF, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    ids[t] = segment[i]
    values[t] = x[i]
    cuda.syncthreads()
    if t == 0 or ids[t - 1] != ids[t]:
        s = float32(0)
        k = t
        while k < HALF and ids[k] == ids[t]:
            s += values[k]
            k += 1
        cuda.atomic.add(sums, ids[t], s)


@wrong("race", "sums", "global", write("first", ANY, ANY), read("first", ANY, ANY), run=_run_segments)
@cuda.jit
def segmented_sum_without_atomic(x, segment, sums):
    """A segment that two blocks share has two first threads."""
    ids = cuda.shared.array(HALF, int32)
    values = cuda.shared.array(HALF, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    ids[t] = segment[i]
    values[t] = x[i]
    cuda.syncthreads()
    if t == 0 or ids[t - 1] != ids[t]:
        s = float32(0)
        k = t
        while k < HALF and ids[k] == ids[t]:
            s += values[k]
            k += 1
        sums[ids[t]] += s  # first


def _run_norm(kernel):
    x = np.arange(2 * N, dtype=np.float32) % 3
    largest = np.full(1, -1, dtype=np.float32)
    kernel[2, N](x, largest)
    assert largest[0] == x.max()


@right(run=_run_norm)
@cuda.jit
def largest_by_atomic(x, largest):
    cuda.atomic.max(largest, 0, x[cuda.grid(1)])


@wrong("race", "largest", "global", write("second", 0), read("first", 1), run=_run_norm)
@cuda.jit
def largest_by_compare_and_store(x, largest):
    v = x[cuda.grid(1)]
    if v > largest[0]:  # first
        largest[0] = v  # second


@wrong("race", "largest", "global", atomic("second", 0), read("first", 1), run=_run_norm)
@cuda.jit
def largest_by_plain_look_before_atomic(x, largest):
    """Saves atomics, but the look itself races with them."""
    v = x[cuda.grid(1)]
    if v > largest[0]:  # first
        cuda.atomic.max(largest, 0, v)  # second
