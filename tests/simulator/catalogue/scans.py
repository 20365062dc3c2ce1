"""Prefix sums: in a block, and over blocks by decoupled look-back."""

import numpy as np
from numba import cuda, float32, int32

from tests.simulator.catalogue.case import atomic, read, right, write, wrong

N = 64


def _run_scan(kernel):
    x = np.arange(2 * N, dtype=np.float32) % 9
    y = np.zeros_like(x)
    kernel[2, N](x, y)
    np.testing.assert_array_equal(y.reshape(2, N), np.cumsum(x.reshape(2, N), axis=1))


@right(run=_run_scan)
@cuda.jit
def hillis_steele(x, y):
    """Two buffers: each step reads one and writes the other."""
    a = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    a[0, t] = x[i]
    source = 0
    distance = 1
    while distance < N:
        cuda.syncthreads()
        v = a[source, t]
        if t >= distance:
            v += a[source, t - distance]
        a[1 - source, t] = v
        source = 1 - source
        distance *= 2
    y[i] = a[source, t]


@wrong("race", "a", "shared", write("first", 1), read("second", 2), run=_run_scan)
@cuda.jit
def hillis_steele_in_one_buffer(x, y):
    a = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    a[t] = x[i]
    distance = 1
    while distance < N:
        cuda.syncthreads()
        if t >= distance:
            a[t] += a[t - distance]  # first, second
        distance *= 2
    y[i] = a[t]


@wrong("race", "a", "shared", write("first", 0), read("second", 1), run=_run_scan, or_kinds=("uninitialised read",))
@cuda.jit
def hillis_steele_with_buffers_not_swapped_back(x, y):
    """Alternates, but the barrier is in every second step only."""
    a = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    a[0, t] = x[i]
    source = 0
    distance = 1
    while distance < N:
        if source == 0:
            cuda.syncthreads()
        v = a[source, t]  # second
        if t >= distance:
            v += a[source, t - distance]  # second
        a[1 - source, t] = v  # first
        source = 1 - source
        distance *= 2
    y[i] = a[source, t]


def _run_exclusive(kernel):
    x = np.arange(N, dtype=np.int32) % 5
    y = np.zeros_like(x)
    kernel[1, N // 2](x, y)
    np.testing.assert_array_equal(y, np.cumsum(x) - x)


@right(run=_run_exclusive)
@cuda.jit
def blelloch(x, y):
    """Up-sweep and down-sweep; a thread has two elements."""
    a = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    a[2 * t] = x[2 * t]
    a[2 * t + 1] = x[2 * t + 1]
    offset = 1
    d = N // 2
    while d > 0:
        cuda.syncthreads()
        if t < d:
            a[offset * (2 * t + 2) - 1] += a[offset * (2 * t + 1) - 1]
        offset *= 2
        d //= 2
    if t == 0:
        a[N - 1] = 0
    d = 1
    while d < N:
        offset //= 2
        cuda.syncthreads()
        if t < d:
            left = offset * (2 * t + 1) - 1
            right_end = offset * (2 * t + 2) - 1
            v = a[left]
            a[left] = a[right_end]
            a[right_end] += v
        d *= 2
    cuda.syncthreads()
    y[2 * t] = a[2 * t]
    y[2 * t + 1] = a[2 * t + 1]


@wrong("race", "a", "shared", write("first", 0), read("second", 1), run=_run_exclusive)
@cuda.jit
def blelloch_without_last_barrier(x, y):
    a = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    a[t] = x[t]
    a[t + N // 2] = x[t + N // 2]
    offset = 1
    d = N // 2
    while d > 0:
        cuda.syncthreads()
        if t < d:
            a[offset * (2 * t + 2) - 1] += a[offset * (2 * t + 1) - 1]
        offset *= 2
        d //= 2
    if t == 0:
        a[N - 1] = 0
    d = 1
    while d < N:
        offset //= 2
        cuda.syncthreads()
        if t < d:
            left = offset * (2 * t + 1) - 1
            right_end = offset * (2 * t + 2) - 1
            v = a[left]
            a[left] = a[right_end]  # first
            a[right_end] += v  # first
        d *= 2
    y[t] = a[t]  # second
    y[t + N // 2] = a[t + N // 2]  # second


AGGREGATE, PREFIX = 1, 2


def _run_look_back(kernel):
    blocks = 6
    x = np.arange(blocks * N, dtype=np.int32) % 4
    y = np.zeros_like(x)
    status = np.zeros(blocks, dtype=np.int32)
    aggregate = np.zeros(blocks, dtype=np.int32)
    prefix = np.zeros(blocks, dtype=np.int32)
    ticket = np.zeros(1, dtype=np.int32)
    kernel[blocks, N](x, y, status, aggregate, prefix, ticket)
    np.testing.assert_array_equal(y, np.cumsum(x))


@cuda.jit(device=True)
def inclusive_scan(v):
    a = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    a[t] = v
    cuda.syncthreads()
    distance = 1
    while distance < N:
        left = a[t - distance] if t >= distance else 0
        cuda.syncthreads()
        a[t] += left
        cuda.syncthreads()
        distance *= 2
    return a[t]


@right(run=_run_look_back, helpers=(inclusive_scan,))
@cuda.jit
def decoupled_look_back(x, y, status, aggregate, prefix, ticket):
    """Merrill and Garland's single-pass scan: tiles are taken by ticket, so that a tile waits for started ones only."""
    shared = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:
        shared[0] = cuda.atomic.add(ticket, 0, 1)
    cuda.syncthreads()
    tile = shared[0]
    v = inclusive_scan(x[tile * N + t])
    if t == N - 1:
        aggregate[tile] = v
        cuda.threadfence()
        cuda.atomic.exch(status, tile, AGGREGATE)
        before = 0
        k = tile - 1
        while k >= 0:
            state = cuda.atomic.add(status, k, 0)
            while state == 0:
                state = cuda.atomic.add(status, k, 0)
            cuda.threadfence()
            if state == PREFIX:
                before += prefix[k]
                break
            before += aggregate[k]
            k -= 1
        prefix[tile] = before + v
        cuda.threadfence()
        cuda.atomic.exch(status, tile, PREFIX)
        shared[1] = before
    cuda.syncthreads()
    y[tile * N + t] = v + shared[1]


@wrong("race", "prefix", "global", write("first", N - 1, 0), read("second", N - 1, 1), run=_run_look_back,
       helpers=(inclusive_scan,), any_array=True)  # fmt: skip
@cuda.jit
def look_back_without_fence(x, y, status, aggregate, prefix, ticket):
    shared = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:
        shared[0] = cuda.atomic.add(ticket, 0, 1)
    cuda.syncthreads()
    tile = shared[0]
    v = inclusive_scan(x[tile * N + t])
    if t == N - 1:
        aggregate[tile] = v  # first
        cuda.atomic.exch(status, tile, AGGREGATE)
        before = 0
        k = tile - 1
        while k >= 0:
            state = cuda.atomic.add(status, k, 0)
            while state == 0:
                state = cuda.atomic.add(status, k, 0)
            if state == PREFIX:
                before += prefix[k]  # second
                break
            before += aggregate[k]  # second
            k -= 1
        prefix[tile] = before + v  # first
        cuda.atomic.exch(status, tile, PREFIX)
        shared[1] = before
    cuda.syncthreads()
    y[tile * N + t] = v + shared[1]


@wrong("race", "status", "global", atomic("first", N - 1, 0), read("second", N - 1, 1), run=_run_look_back,
       helpers=(inclusive_scan,))  # fmt: skip
@cuda.jit
def look_back_by_plain_reads(x, y, status, aggregate, prefix, ticket):
    shared = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:
        shared[0] = cuda.atomic.add(ticket, 0, 1)
    cuda.syncthreads()
    tile = shared[0]
    v = inclusive_scan(x[tile * N + t])
    if t == N - 1:
        aggregate[tile] = v
        cuda.threadfence()
        cuda.atomic.exch(status, tile, AGGREGATE)  # first
        before = 0
        k = tile - 1
        while k >= 0:
            while status[k] == 0:  # second
                pass
            if status[k] == PREFIX:  # second
                before += prefix[k]
                break
            before += aggregate[k]
            k -= 1
        prefix[tile] = before + v
        cuda.threadfence()
        cuda.atomic.exch(status, tile, PREFIX)  # first
        shared[1] = before
    cuda.syncthreads()
    y[tile * N + t] = v + shared[1]
