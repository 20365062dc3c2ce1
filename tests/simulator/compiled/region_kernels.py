"""Kernels that run by regions, and kernels whose threads need stacks of their own; each takes an array and its results.

The outcome of ``in_order`` depends on the order of threads, which is the natural one without checks.
"""

from __future__ import annotations

from typing import Any

from numba import cuda, float32, int64

THREADS = 32


@cuda.jit
def in_order(x: Any, out: Any) -> None:
    """Each thread reads what its neighbours wrote or have not yet written, in each of three regions."""
    t = cuda.threadIdx.x
    for k in range(3):
        x[t] = x[(t + 1) % THREADS] + x[(t + 31) % THREADS] + k
        cuda.syncthreads()
        out[t] += x[(t + 5) % THREADS]
        x[(t + 7) % THREADS] += out[t]
        cuda.syncthreads()


@cuda.jit
def tree(x: Any, out: Any) -> None:
    """The loop's condition is of the block; a thread returns after the last barrier."""
    tile = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t > 3:
        return
    out[t] = tile[0] + t


@cuda.jit
def kept(x: Any, out: Any) -> None:
    """Variables of one region that others read and change, in a condition of the block and after its loop."""
    t = cuda.threadIdx.x
    twice = 2 * t + 1  # computed again
    total = x[t]
    count = int64(0)
    for k in range(4):
        if k % 2 == 0:
            cuda.syncthreads()
            total += x[(twice + k) % THREADS]
        else:
            cuda.syncthreads()
            count += twice
    cuda.syncthreads()
    out[t] = total + count


@cuda.jit
def counted(x: Any, out: Any) -> None:
    """An early end of some threads, and loops within a thread; no barrier."""
    t = cuda.threadIdx.x
    if t % 3 == 1:
        return
    for k in range(t):
        if x[k] > 20:
            break
        out[t] += x[k]
    for k in range(3):
        if k == t:
            return


@cuda.jit
def added(x: Any, out: Any) -> None:
    out[cuda.threadIdx.x] = cuda.atomic.add(x, 0, 1)


# ------------------------------------------------------------------------------------------------ not by regions


@cuda.jit
def early_return(x: Any, out: Any) -> None:
    if cuda.threadIdx.x > 7:
        return
    cuda.syncthreads()
    out[cuda.threadIdx.x] = x[0]


@cuda.jit
def own_condition(x: Any, out: Any) -> None:
    """Threads come to the barrier as often as what they read says."""
    k = x[0]
    while k > 0:
        cuda.syncthreads()
        k -= 8
    out[cuda.threadIdx.x] = k


@cuda.jit
def no_barrier_between(x: Any, out: Any) -> None:
    """From one turn of the loop to the next no barrier is between two accesses."""
    t = cuda.threadIdx.x
    for k in range(3):
        x[t] += k
        cuda.syncthreads()
        out[t] += x[(t + 1) % THREADS]


@cuda.jit
def leaves_the_loop(x: Any, out: Any) -> None:
    t = cuda.threadIdx.x
    for k in range(4):
        out[t] += k
        cuda.syncthreads()
        if k == 2:
            break
    x[t] += out[t]


@cuda.jit
def counts_by_all(x: Any, out: Any) -> None:
    if cuda.syncthreads_count(x[cuda.threadIdx.x] > 3) > 2:
        out[cuda.threadIdx.x] = 1


@cuda.jit
def tries_again(x: Any, out: Any) -> None:
    """A thread whose atomic changes nothing may wait for another one."""
    while cuda.atomic.cas(out, cuda.threadIdx.x, 0, 1) == 0:
        x[0] += 1


BY_REGIONS = (in_order, tree, kept, counted, added)
ON_STACKS = (early_return, own_condition, no_barrier_between, leaves_the_loop, counts_by_all, tries_again)
