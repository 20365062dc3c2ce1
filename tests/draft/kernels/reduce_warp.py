"""Sum of each row by shuffles: a warp's sums meet in shared memory, and the first warp adds those."""

import numpy as np
from numba import cuda

ALL = 0xFFFFFFFF
WARPS = 2


@cuda.jit(device=True)
def warp_sum(value):
    offset = 16
    while offset:
        value += cuda.shfl_down_sync(ALL, value, offset)
        offset >>= 1
    return value


@cuda.jit
def row_sums(x, out):
    of_warps = cuda.shared.array(WARPS, np.float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    lane, warp = t & 31, t >> 5
    value = np.float32(0)
    for column in range(t, x.shape[1], cuda.blockDim.x):
        value += x[row, column]
    value = warp_sum(value)
    if lane == 0:
        of_warps[warp] = value
    cuda.syncthreads()
    if warp == 0:
        value = of_warps[lane] if lane < WARPS else np.float32(0)
        value = warp_sum(value)
        if lane == 0:
            out[row] = value


def inputs(rng):
    return {"x": rng.standard_normal((3, 150)).astype(np.float32)}


def main(rng):
    out = np.zeros(3, np.float32)
    row_sums[3, 32 * WARPS](inputs(rng)["x"], out)
    return {"out": out}


def expected(given):
    return {"out": given["x"].sum(1, dtype=np.float64)}
