"""Dot product of float16 vectors, summed in float32, by a class of blocks' partial sums."""

import numpy as np
from numba import cuda, float32

THREADS_PER_BLOCK = 64


@cuda.jit
def dot(a, b, c):
    cache = cuda.shared.array(THREADS_PER_BLOCK, dtype=float32)
    tid = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    cache_index = cuda.threadIdx.x
    temp = float32(0)
    while tid < a.shape[0]:
        temp += float32(a[tid]) * float32(b[tid])
        tid += cuda.blockDim.x * cuda.gridDim.x
    cache[cache_index] = temp
    cuda.syncthreads()
    i = cuda.blockDim.x // 2
    while i != 0:
        if cache_index < i:
            cache[cache_index] += cache[cache_index + i]
        cuda.syncthreads()
        i //= 2
    if cache_index == 0:
        c[cuda.blockIdx.x] = cache[0]


def inputs(rng):
    return {name: rng.standard_normal(300).astype(np.float16) for name in "ab"}


def main(rng):
    given = inputs(rng)
    c = np.zeros(2, np.float32)
    dot[2, THREADS_PER_BLOCK](given["a"], given["b"], c)
    return {"c": c, "sum": c.sum(keepdims=True)}


def expected(given):
    return {"sum": np.array([given["a"].astype(np.float64) @ given["b"].astype(np.float64)])}


TOLERANCE = 1e-4
