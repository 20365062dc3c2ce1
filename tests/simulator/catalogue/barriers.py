"""Barriers that are missing, and barriers that not all threads of a block reach."""

from itertools import pairwise

import numpy as np
from numba import cuda, float32, int32

from tests.simulator.catalogue.case import ANY, read, right, waits, write, wrong

N = 64


def _run_difference(kernel):
    x = np.arange(2 * N, dtype=np.float32) ** 2
    y = np.zeros_like(x)
    kernel[2, N](x, y)
    blocks = x.reshape(2, N)
    np.testing.assert_array_equal(y.reshape(2, N), np.diff(blocks, axis=1, prepend=blocks[:, :1]))


@wrong(
    "race",
    "tile",
    "shared",
    write("first", 0),
    read("second", 1),
    or_kinds=("uninitialised read",),
    run=_run_difference,
)
@cuda.jit
def difference_without_barrier(x, y):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i]  # first
    left = tile[t - 1] if t > 0 else tile[t]  # second
    y[i] = tile[t] - left


@right(run=_run_difference)
@cuda.jit
def difference(x, y):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i]
    cuda.syncthreads()
    left = tile[t - 1] if t > 0 else tile[t]
    y[i] = tile[t] - left


def _run_rotate(kernel):
    x = np.arange(N, dtype=np.int32)
    y = np.zeros_like(x)
    kernel[1, N](x, y, 5)
    np.testing.assert_array_equal(y, np.roll(x, -5))


@wrong("race", "ring", "shared", read("first", 0), write("second", 1), run=_run_rotate)
@cuda.jit
def rotate_without_barrier_after_read(x, y, steps):
    ring = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    ring[t] = x[t]
    cuda.syncthreads()
    for _ in range(steps):
        v = ring[(t + 1) % N]  # first
        ring[t] = v  # second
        cuda.syncthreads()
    y[t] = ring[t]


@wrong("race", "ring", "shared", read("second", 0), write("first", 1), run=_run_rotate)
@cuda.jit
def rotate_without_barrier_after_write(x, y, steps):
    ring = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    ring[t] = x[t]
    cuda.syncthreads()
    for _ in range(steps):
        v = ring[(t + 1) % N]  # second
        cuda.syncthreads()
        ring[t] = v  # first
    y[t] = ring[t]


@right(run=_run_rotate)
@cuda.jit
def rotate(x, y, steps):
    ring = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    ring[t] = x[t]
    cuda.syncthreads()
    for _ in range(steps):
        v = ring[(t + 1) % N]
        cuda.syncthreads()
        ring[t] = v
        cuda.syncthreads()
    y[t] = ring[t]


def _run_halves(kernel):
    x = np.arange(N, dtype=np.float32)
    y = np.zeros_like(x)
    kernel[1, N](x, y)
    np.testing.assert_array_equal(y, np.concatenate([x[32:] + 1, x[:32] * 2]))


@wrong(
    "barrier divergence",
    None,
    None,
    waits("syncthreads", "first", 0),
    waits("syncthreads", "second", 32),
    run=_run_halves,
)
@cuda.jit
def barrier_in_each_branch(x, y):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    if t < 32:
        tile[t] = x[t] * 2
        cuda.syncthreads()  # first
    else:
        tile[t] = x[t] + 1
        cuda.syncthreads()  # second
    y[t] = tile[(t + 32) % N]


@right(run=_run_halves)
@cuda.jit
def barrier_after_the_branches(x, y):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    if t < 32:
        tile[t] = x[t] * 2
    else:
        tile[t] = x[t] + 1
    cuda.syncthreads()
    y[t] = tile[(t + 32) % N]


def _run_reverse_tail(kernel):
    n = 100
    x = np.arange(n, dtype=np.float32)
    y = np.zeros_like(x)
    kernel[2, N](x, y, n)
    np.testing.assert_array_equal(y, np.concatenate([x[:64][::-1], x[64:][::-1]]))


@wrong(
    "barrier divergence",
    None,
    None,
    waits("syncthreads", "first", 0, 1),
    severity="warning",
    run=_run_reverse_tail,
)
@cuda.jit
def early_return_before_barrier(x, y, n):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i >= n:
        return
    tile[t] = x[i]
    cuda.syncthreads()  # first
    size = min(N, n - cuda.blockIdx.x * N)
    y[i] = tile[size - 1 - t]


@right(run=_run_reverse_tail)
@cuda.jit
def early_return_after_barrier(x, y, n):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < n:
        tile[t] = x[i]
    cuda.syncthreads()
    if i >= n:
        return
    size = min(N, n - cuda.blockIdx.x * N)
    y[i] = tile[size - 1 - t]


def _run_rows(kernel):
    """Rows of a ragged matrix (CSR); each thread sums one, all share a staged column of weights."""
    lengths = np.arange(32) % 4 + 1
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = np.arange(starts[-1], dtype=np.float32)
    weights = np.array([1, 2, 4, 8], dtype=np.float32)
    y = np.zeros(32, dtype=np.float32)
    kernel[1, 32](starts, values, weights, y)
    want = [np.dot(values[a:b], weights[: b - a]) for a, b in pairwise(starts)]
    np.testing.assert_array_equal(y, np.array(want, dtype=np.float32))


@wrong(
    "barrier divergence", None, None, waits("syncthreads", "first", 1), waits("syncthreads", "second", 0), run=_run_rows
)
@cuda.jit
def barrier_in_loop_of_unequal_length(starts, values, weights, y):
    weight = cuda.shared.array(1, float32)
    row = cuda.threadIdx.x
    total = float32(0)
    for k in range(starts[row + 1] - starts[row]):
        cuda.syncthreads()  # first
        if row == 3:
            weight[0] = weights[k]
        cuda.syncthreads()
        total += values[starts[row] + k] * weight[0]
    cuda.syncthreads()  # second
    y[row] = total


@right(run=_run_rows)
@cuda.jit
def barrier_in_loop_of_equal_length(starts, values, weights, y):
    weight = cuda.shared.array(1, float32)
    row = cuda.threadIdx.x
    total = float32(0)
    length = starts[row + 1] - starts[row]
    for k in range(weights.size):
        cuda.syncthreads()
        if row == 3:
            weight[0] = weights[k]
        cuda.syncthreads()
        if k < length:
            total += values[starts[row] + k] * weight[0]
    y[row] = total


def _run_any_negative(kernel):
    x = np.arange(2 * N, dtype=np.float32)
    x[70] = -1
    y = np.zeros_like(x)
    kernel[2, N](x, y)
    want = x.copy()
    want[N:] = 0
    np.testing.assert_array_equal(y, want)


@wrong("race", "bad", "shared", read("second", ANY, 1), write("first", 6, 1), run=_run_any_negative)
@cuda.jit
def flag_without_barrier(x, y):
    """Blocks with a negative element give zeros."""
    bad = cuda.shared.array(1, int32)
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        bad[0] = 0
    cuda.syncthreads()
    if x[i] < 0:
        bad[0] = 1  # first
    y[i] = 0 if bad[0] else x[i]  # second


@right(run=_run_any_negative)
@cuda.jit
def flag_by_barrier_reduction(x, y):
    i = cuda.grid(1)
    y[i] = 0 if cuda.syncthreads_or(int32(x[i] < 0)) else x[i]
