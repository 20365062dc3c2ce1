"""Tuples of tuples: constants chosen by variables, rows, arguments, results, and pairs that are swapped."""

import numpy as np
from numba import cuda

KERNEL = ((1, 2, 1), (2, 4, 2), (1, 2, 1))
EDGES = ((0, 1), (1, 2), (2, 0))


@cuda.jit(device=True)
def swap(p):
    return (p[1], p[0])


@cuda.jit(device=True)
def area(triangle):
    (x0, y0), (x1, y1), (x2, y2) = triangle
    return abs((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)) / 2


@cuda.jit
def blur(x, y, areas):
    i, j = cuda.grid(2)
    n, m = x.shape
    if 0 < i < n - 1 and 0 < j < m - 1:
        total = 0.0
        for a in range(3):
            for b in range(3):
                total += KERNEL[a][b] * x[i + a - 1, j + b - 1]
        y[i, j] = total / 16
        t = ((x[i, j], x[i, j + 1]), (x[i + 1, j], x[i - 1, j]), (1.0, 2.0))
        areas[i, j] = area(t)
        first, second = (x[i, j], 1.0), (2.0, x[i, j])
        if x[i, j] > 0:
            first, second = second, first
        pair = (first, second)
        pair = swap(pair)
        areas[i, j] += pair[0][1] + pair[1][0]
        for a, b in EDGES:
            areas[i, j] += t[a][0] * t[b][1]
        for row in KERNEL:
            for v in row:
                areas[i, j] -= v


def main(rng):
    x = rng.normal(size=(12, 13))
    y, areas = np.zeros_like(x), np.zeros_like(x)
    blur[(2, 2), (8, 8)](x, y, areas)
    return {"y": y, "areas": areas}
