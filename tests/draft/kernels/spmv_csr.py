"""Sparse matrix times vector, compressed rows: a warp a row, its lanes' sums by shuffles."""

import numpy as np
from numba import cuda


@cuda.jit
def spmv_csr(indptr, indices, data, x, y):
    warp = cuda.grid(1) // cuda.warpsize
    lane = cuda.threadIdx.x % 32
    if warp >= y.size:
        return
    acc = np.float64(0)
    for k in range(indptr[warp] + lane, indptr[warp + 1], 32):
        acc += data[k] * x[indices[k]]
    for delta in (16, 8, 4, 2, 1):
        acc += cuda.shfl_xor_sync(0xFFFFFFFF, acc, delta)
    if lane == 0:
        y[warp] = acc


def inputs(rng):
    dense = np.where(rng.random((10, 50)) < 0.4, rng.standard_normal((10, 50)), 0)
    return {"dense": dense, "x": rng.standard_normal(50)}


def main(rng):
    given = inputs(rng)
    rows, columns = np.nonzero(given["dense"])
    indptr = np.searchsorted(rows, np.arange(11)).astype(np.int32)
    y = np.zeros(10)
    spmv_csr[5, 64](indptr, columns.astype(np.int32), given["dense"][rows, columns], given["x"], y)
    return {"y": y}


def expected(given):
    return {"y": given["dense"] @ given["x"]}
