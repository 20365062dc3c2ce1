"""Memory that is read before anything was written to it."""

import numpy as np
from numba import cuda, float32, int32

from tests.simulator.catalogue.case import atomic, read, right, wrong

N = 32


def _run_window_sums(kernel):
    x = np.arange(4 * N, dtype=np.float32)
    y = np.zeros((N, 4), dtype=np.float32)
    kernel[1, N](x, y)
    np.testing.assert_array_equal(y, x.reshape(4, N).T.cumsum(axis=1))


@right(run=_run_window_sums)
@cuda.jit
def running_sums_in_local_memory(x, y):
    t = cuda.threadIdx.x
    s = cuda.local.array(4, float32)
    for k in range(4):
        s[k] = 0
    for k in range(4):
        for j in range(k, 4):
            s[j] += x[k * N + t]
    for k in range(4):
        y[t, k] = s[k]


@wrong("uninitialised read", "s", "local", read("first", 0), run=_run_window_sums)
@cuda.jit
def running_sums_from_nothing(x, y):
    t = cuda.threadIdx.x
    s = cuda.local.array(4, float32)
    for k in range(4):
        for j in range(k, 4):
            s[j] += x[k * N + t]  # first
    for k in range(4):
        y[t, k] = s[k]


def _run_counts(kernel):
    x = np.arange(4 * N, dtype=np.int32) * 3 % 8
    counts = np.zeros((4, 8), dtype=np.int32)
    kernel[4, N](x, counts)
    np.testing.assert_array_equal(counts, [np.bincount(part, minlength=8) for part in x.reshape(4, N)])


@right(run=_run_counts)
@cuda.jit
def counts_of_each_block(x, counts):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < 8:
        counts[cuda.blockIdx.x, t] = bins[t]


@wrong("uninitialised read", "bins", "shared", atomic("first", 0), run=_run_counts)
@cuda.jit
def counts_in_memory_taken_for_zero(x, counts):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)  # first
    cuda.syncthreads()
    if t < 8:
        counts[cuda.blockIdx.x, t] = bins[t]


@wrong("uninitialised read", "bins", "shared", atomic("first", 2), run=_run_counts)
@cuda.jit
def counts_in_half_cleared_memory(x, counts):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 4:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)  # first
    cuda.syncthreads()
    if t < 8:
        counts[cuda.blockIdx.x, t] = bins[t]


def _run_table(kernel):
    x = np.arange(4 * N, dtype=np.int32) % 16
    y = np.zeros_like(x)
    kernel[4, N](x, y)
    np.testing.assert_array_equal(y, x * x)


@right(run=_run_table)
@cuda.jit
def table_in_each_block(x, y):
    table = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        table[t] = t * t
    cuda.syncthreads()
    i = cuda.grid(1)
    y[i] = table[x[i]]


@wrong("uninitialised read", "table", "shared", read("first", 0, 1), run=_run_table)
@cuda.jit
def table_of_the_first_block(x, y):
    """Shared memory is taken to last from block to block, as it does in Numba's own simulator."""
    table = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0 and t < 16:
        table[t] = t * t
    cuda.syncthreads()
    i = cuda.grid(1)
    y[i] = table[x[i]]  # first


def _run_tail_sum(kernel):
    n = 50
    x = np.arange(n, dtype=np.float32)
    sums = np.zeros(2, dtype=np.float32)
    kernel[2, N](x, sums, n)
    np.testing.assert_array_equal(sums, [x[:N].sum(), x[N:].sum()])


@right(run=_run_tail_sum)
@cuda.jit
def tail_sum(x, sums, n):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    acc[t] = x[i] if i < n else 0
    s = N // 2
    while s > 0:
        cuda.syncthreads()
        if t < s:
            acc[t] += acc[t + s]
        s //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


@wrong("uninitialised read", "acc", "shared", read("first", 2, 1), run=_run_tail_sum)
@cuda.jit
def tail_sum_of_a_half_filled_tile(x, sums, n):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < n:
        acc[t] = x[i]
    s = N // 2
    while s > 0:
        cuda.syncthreads()
        if t < s:
            acc[t] += acc[t + s]  # first
        s //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


def _run_accumulate(kernel):
    """The result lies in memory that device_array() left as it was."""
    x = np.arange(3 * N, dtype=np.float32)
    y = cuda.device_array(N, dtype=np.float32)
    kernel[1, N](x, y)
    np.testing.assert_array_equal(y.copy_to_host(), x.reshape(3, N).sum(axis=0))


@right(run=_run_accumulate)
@cuda.jit
def accumulate(x, y):
    t = cuda.threadIdx.x
    y[t] = 0
    for k in range(3):
        y[t] += x[k * N + t]


@wrong("uninitialised read", "y", "global", read("first", 0), run=_run_accumulate)
@cuda.jit
def accumulate_in_a_fresh_device_array(x, y):
    t = cuda.threadIdx.x
    for k in range(3):
        y[t] += x[k * N + t]  # first


def _run_chain(kernel):
    x = np.arange(1, N + 1, dtype=np.float32)
    squares = cuda.device_array(N, dtype=np.float32)
    y = np.zeros(1, dtype=np.float32)
    kernel[1, N](x, squares)
    add_up[1, 1](squares, y)
    assert y[0] == (x * x).sum()


@cuda.jit
def add_up(x, y):
    s = float32(0)
    for i in range(x.size):
        s += x[i]  # first
    y[0] = s


@right(run=_run_chain, helpers=(add_up,))
@cuda.jit
def squares_of_all(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i]


@wrong("uninitialised read", "x", "global", read("first", 0), run=_run_chain, helpers=(add_up,))
@cuda.jit
def squares_of_all_but_the_last(x, y):
    """The kernel that reads its result meets what it left out."""
    i = cuda.grid(1)
    if i < x.size - 1:
        y[i] = x[i] * x[i]
