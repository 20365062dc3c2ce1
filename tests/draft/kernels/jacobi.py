"""Jacobi iteration for A x = b; the host stops when the largest change is small."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def jacobi_step(a, b, x, x_new, change):
    i = cuda.grid(1)
    if i < b.size:
        sigma = 0.0
        for j in range(b.size):
            if j != i:
                sigma += a[i, j] * x[j]
        x_new[i] = (b[i] - sigma) / a[i, i]
        cuda.atomic.max(change, 0, math.fabs(x_new[i] - x[i]))


def inputs(rng):
    n = 20
    a = rng.uniform(-1, 1, (n, n))
    a += np.diag(np.full(n, 1.0 * n))
    return {"a": a, "b": rng.uniform(-1, 1, n)}


def main(rng):
    given = inputs(rng)
    x, x_new = np.zeros(20), np.zeros(20)
    rounds = 0
    while rounds < 100:
        change = np.zeros(1)
        jacobi_step[3, 8](given["a"], given["b"], x, x_new, change)
        x, x_new = x_new, x
        rounds += 1
        if change[0] < 1e-12:
            break
    return {"x": x, "rounds": np.array([rounds])}


def expected(given):
    return {"x": np.linalg.solve(given["a"], given["b"])}


TOLERANCE = 1e-10  # where the iteration stops
