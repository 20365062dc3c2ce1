"""Sum of each block by a tree in shared memory: the stride halves, with a barrier a step."""

import numpy as np
from numba import cuda, float64

THREADS = 32


@cuda.jit
def reduce_blocks(x, partial):
    shared = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    shared[t] = x[i] if i < x.shape[0] else 0.0
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            shared[t] += shared[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = shared[0]


def inputs(rng):
    return {"x": rng.standard_normal(150)}


def main(rng):
    partial = np.zeros(5)
    reduce_blocks[5, THREADS](inputs(rng)["x"], partial)
    return {"partial": partial}


def expected(given):
    return {"partial": np.pad(given["x"], (0, 10)).reshape(5, THREADS).sum(1)}
