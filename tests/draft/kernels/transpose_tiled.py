"""Transpose with a padded tile; a block of 16 by 4 threads moves four rows each."""

import numpy as np
from numba import cuda, int32

TILE_DIM = 16
BLOCK_ROWS = 4
PADDED = TILE_DIM + 1


@cuda.jit
def transpose(idata, odata):
    tile = cuda.shared.array((TILE_DIM, PADDED), int32)
    x = cuda.blockIdx.x * TILE_DIM + cuda.threadIdx.x
    y = cuda.blockIdx.y * TILE_DIM + cuda.threadIdx.y
    for j in range(0, TILE_DIM, BLOCK_ROWS):
        if y + j < idata.shape[0] and x < idata.shape[1]:
            tile[cuda.threadIdx.y + j, cuda.threadIdx.x] = idata[y + j, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE_DIM + cuda.threadIdx.x
    y = cuda.blockIdx.x * TILE_DIM + cuda.threadIdx.y
    for j in range(0, TILE_DIM, BLOCK_ROWS):
        if y + j < odata.shape[0] and x < odata.shape[1]:
            odata[y + j, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y + j]


def inputs(rng):
    return {"a": rng.integers(-(2**31), 2**31, (20, 33), dtype=np.int32)}


def main(rng):
    out = np.zeros((33, 20), np.int32)
    transpose[(3, 2), (TILE_DIM, BLOCK_ROWS)](inputs(rng)["a"], out)
    return {"out": out}


def expected(given):
    return {"out": given["a"].T}
