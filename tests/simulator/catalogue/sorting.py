"""Sorting networks and double buffering."""

import numpy as np
from numba import cuda, float32, int32

from tests.simulator.catalogue.case import ANY, read, right, write, wrong

N = 32


def _run_sort(kernel):
    x = (np.arange(2 * N, dtype=np.int32) * 37 + 11) % 64
    y = x.copy()
    kernel[2, N](y)
    np.testing.assert_array_equal(y.reshape(2, N), np.sort(x.reshape(2, N), axis=1))


@right(run=_run_sort)
@cuda.jit
def bitonic_sort(x):
    a = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    a[t] = x[i]
    k = 2
    while k <= N:
        j = k // 2
        while j > 0:
            cuda.syncthreads()
            other = t ^ j
            if other > t:
                low, high = a[t], a[other]
                if (low > high) == (t & k == 0):
                    a[t] = high
                    a[other] = low
            j //= 2
        k *= 2
    cuda.syncthreads()
    x[i] = a[t]


@wrong("race", "a", "shared", read("first", ANY), write("second", ANY), run=_run_sort, or_kinds=("uninitialised read",))
@cuda.jit
def bitonic_sort_with_barrier_outside(x):
    """The barrier is in the outer loop; the inner one exchanges with other partners each time."""
    a = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    a[t] = x[i]
    k = 2
    while k <= N:
        cuda.syncthreads()
        j = k // 2
        while j > 0:
            other = t ^ j
            if other > t:
                low, high = a[t], a[other]  # first
                if (low > high) == (t & k == 0):
                    a[t] = high  # second
                    a[other] = low  # second
            j //= 2
        k *= 2
    cuda.syncthreads()
    x[i] = a[t]


@right(run=_run_sort)
@cuda.jit
def odd_even_sort(x):
    """One warp sorts: a rendezvous a step is enough."""
    a = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    a[t] = x[i]
    cuda.syncwarp()
    for step in range(N):
        if t % 2 == step % 2 and t + 1 < N and a[t] > a[t + 1]:
            a[t], a[t + 1] = a[t + 1], a[t]
        cuda.syncwarp()
    x[i] = a[t]


@wrong("race", "a", "shared", read("first", 0), write("second", 1), run=_run_sort)
@cuda.jit
def odd_even_sort_of_all_pairs(x):
    """Even and odd pairs are exchanged in the same step."""
    a = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    a[t] = x[i]
    cuda.syncwarp()
    for _ in range(N):
        if t + 1 < N and a[t] > a[t + 1]:  # first
            a[t], a[t + 1] = a[t + 1], a[t]  # first, second
        cuda.syncwarp()
    x[i] = a[t]


def _run_stream(kernel):
    """Each block goes over its rows; a row is staged while the last one is used."""
    x = np.arange(2 * 6 * N, dtype=np.float32).reshape(2, 6, N)
    y = np.zeros((2, N), dtype=np.float32)
    kernel[2, N](x, y)
    np.testing.assert_array_equal(y, x[:, :, ::-1].sum(axis=1))


@right(run=_run_stream)
@cuda.jit
def double_buffer(x, y):
    rows = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    steps = x.shape[1]
    rows[0, t] = x[b, 0, t]
    s = float32(0)
    for k in range(steps):
        cuda.syncthreads()
        if k + 1 < steps:
            rows[(k + 1) % 2, t] = x[b, k + 1, t]
        s += rows[k % 2, N - 1 - t]
    y[b, t] = s


@wrong("uninitialised read", "rows", "shared", read("second", 0), run=_run_stream,
       or_kinds=("race",))  # fmt: skip
@cuda.jit
def double_buffer_with_a_barrier_every_other_step(x, y):
    rows = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    steps = x.shape[1]
    rows[0, t] = x[b, 0, t]  # first
    s = float32(0)
    for k in range(steps):
        if k % 2 == 0:
            cuda.syncthreads()
        if k + 1 < steps:
            rows[(k + 1) % 2, t] = x[b, k + 1, t]  # first
        s += rows[k % 2, N - 1 - t]  # second
    y[b, t] = s


@wrong("race", "rows", "shared", read("second", 15), write("first", 16), run=_run_stream)
@cuda.jit
def double_buffer_that_loads_what_it_reads(x, y):
    """The next row goes into the buffer in use."""
    rows = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    steps = x.shape[1]
    rows[0, t] = x[b, 0, t]
    s = float32(0)
    for k in range(steps):
        cuda.syncthreads()
        if k + 1 < steps:
            rows[k % 2, t] = x[b, k + 1, t]  # first
        s += rows[k % 2, N - 1 - t]  # second
    y[b, t] = s


def _run_ping_pong(kernel):
    """Steps are launches: each reads one array and writes the other."""
    a = np.arange(2 * N, dtype=np.float64)
    b = np.zeros_like(a)
    want = a.copy()
    for _ in range(3):
        kernel[2, N](a, b)
        a, b = b, a
        want = np.roll(want, 1) + want
    np.testing.assert_array_equal(a, want)


@right(run=_run_ping_pong)
@cuda.jit
def ping_pong(a, b):
    i = cuda.grid(1)
    b[i] = a[i - 1] + a[i]


@wrong("race", "a", "global", write("second", 0), read("first", 1), run=_run_ping_pong)
@cuda.jit
def ping_without_pong(a, b):
    i = cuda.grid(1)
    a[i] = a[i - 1] + a[i]  # first, second
    b[i] = a[i]
