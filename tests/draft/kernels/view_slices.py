"""Views of rows, columns and blocks of a matrix as arguments of device functions; a slice is assigned one value."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def mean(values):
    s = 0.0
    for k in range(values.shape[0]):
        s += values[k]
    return s / values.shape[0]


@cuda.jit(device=True)
def trace(square):
    s = 0.0
    for k in range(len(square)):
        s += square[k, k]
    return s


@cuda.jit
def summaries(a, of_rows, of_columns, of_blocks, marks):
    i = cuda.grid(1)
    n = a.shape[0]
    if i < n:
        of_rows[i] = mean(a[i])
        of_columns[i] = mean(a[:, i])
        odd = a[i, 1::2]
        if mean(odd) > of_rows[i]:
            marks[i, 2:5] = 1
    if i < n // 4:
        block = a[4 * i : 4 * i + 4, 4 * i : 4 * i + 4]
        of_blocks[i] = trace(block)


def inputs(rng):
    return {"a": rng.standard_normal((12, 12))}


def main(rng):
    a = inputs(rng)["a"]
    rows, columns, blocks, marks = np.zeros(12), np.zeros(12), np.zeros(3), np.zeros((12, 6), np.uint8)
    summaries[1, 16](a, rows, columns, blocks, marks)
    return {"rows": rows, "columns": columns, "blocks": blocks, "marks": marks}


def expected(given):
    a = given["a"]
    marks = np.zeros((12, 6), np.uint8)
    marks[a[:, 1::2].mean(1) > a.mean(1), 2:5] = 1
    blocks = np.array([a[k : k + 4, k : k + 4].trace() for k in (0, 4, 8)])
    return {"rows": a.mean(1), "columns": a.mean(0), "blocks": blocks, "marks": marks}
