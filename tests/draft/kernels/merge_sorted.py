"""Merges two sorted arrays: each thread finds by bisection where its diagonal splits, then merges its part."""

import numpy as np
from numba import cuda

PART = 5


@cuda.jit(device=True)
def split(a, b, diagonal):
    low = max(0, diagonal - b.size)
    high = min(diagonal, a.size)
    while low < high:
        middle = (low + high) // 2
        if a[middle] <= b[diagonal - 1 - middle]:
            low = middle + 1
        else:
            high = middle
    return low


@cuda.jit
def merge(a, b, out):
    start = cuda.grid(1) * PART
    if start >= out.size:
        return
    i = split(a, b, start)
    j = start - i
    for k in range(start, min(start + PART, out.size)):
        if j >= b.size or (i < a.size and a[i] <= b[j]):
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1


def inputs(rng):
    return {
        "a": np.sort(rng.integers(0, 99, 43, dtype=np.uint32)),
        "b": np.sort(rng.integers(0, 99, 31, dtype=np.uint32)),
    }


def main(rng):
    given = inputs(rng)
    out = np.zeros(74, np.uint32)
    merge[1, 32](given["a"], given["b"], out)
    return {"out": out}


def expected(given):
    return {"out": np.sort(np.concatenate([given["a"], given["b"]]))}
