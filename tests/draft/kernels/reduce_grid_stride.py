"""Largest absolute value: a grid-stride loop, then a second launch of one block over the blocks' results."""

import numpy as np
from numba import cuda

BLOCK = 64


@cuda.jit
def largest(x, out):
    best = cuda.shared.array(BLOCK, np.float32)
    t = cuda.threadIdx.x
    mine = np.float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine = max(mine, abs(x[i]))
    best[t] = mine
    cuda.syncthreads()
    half = BLOCK >> 1
    while half:
        if t < half:
            best[t] = max(best[t], best[t + half])
        cuda.syncthreads()
        half >>= 1
    if t == 0:
        out[cuda.blockIdx.x] = best[0]


def inputs(rng):
    return {"x": rng.normal(0, 10, 1000).astype(np.float32)}


def main(rng):
    blocks = 4
    partial, out = np.zeros(blocks, np.float32), np.zeros(1, np.float32)
    largest[blocks, BLOCK](inputs(rng)["x"], partial)
    largest[1, BLOCK](partial, out)
    return {"partial": partial, "out": out}


def expected(given):
    return {"out": np.abs(given["x"]).max(keepdims=True)}
