"""Sparse matrix times vector, ELLPACK: as many entries a row, stored by columns; -1 is none."""

import numpy as np
from numba import cuda


@cuda.jit
def spmv_ell(width, columns, values, x, y):
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < y.shape[0]:
        dot = np.float32(0.0)
        k = 0
        while k < width and columns[k, row] != -1:
            dot += values[k, row] * x[columns[k, row]]
            k += 1
        y[row] = dot


def inputs(rng):
    columns = np.full((6, 30), -1, np.int32)
    for row in range(30):
        count = int(rng.integers(0, 7))
        columns[:count, row] = rng.choice(25, count, replace=False)
    values = rng.standard_normal((6, 30)).astype(np.float32)
    return {"columns": columns, "values": values, "x": rng.standard_normal(25).astype(np.float32)}


def main(rng):
    given = inputs(rng)
    y = np.zeros(30, np.float32)
    spmv_ell[2, 16](np.int32(6), given["columns"], given["values"], given["x"], y)
    return {"y": y}


def expected(given):
    used = given["columns"] >= 0
    return {"y": np.where(used, given["values"] * given["x"].astype(np.float64)[given["columns"]], 0).sum(0)}
