"""Odd-even transposition sort: pairs that begin at even places, then at odd ones, n times."""

import numpy as np
from numba import cuda


@cuda.jit
def odd_even(a):
    i = cuda.threadIdx.x
    n = a.shape[0]
    for phase in range(n):
        left = 2 * i + phase % 2
        if left + 1 < n and a[left] > a[left + 1]:
            tmp = a[left]
            a[left] = a[left + 1]
            a[left + 1] = tmp
        cuda.syncthreads()


def inputs(rng):
    return {"a": rng.integers(-128, 128, 33, dtype=np.int8)}


def main(rng):
    a = inputs(rng)["a"].copy()
    odd_even[1, 32](a)
    return {"a": a}


def expected(given):
    return {"a": np.sort(given["a"])}
