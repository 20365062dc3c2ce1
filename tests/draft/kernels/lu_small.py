"""Solves a small linear system a thread, by elimination with pivots in local memory."""

import math

import numpy as np
from numba import cuda, float64

N = 4


@cuda.jit
def solve(a, b, x, det):
    m = cuda.local.array((N, N), float64)
    v = cuda.local.array(N, float64)
    i = cuda.grid(1)
    if i >= a.shape[0]:
        return
    for r in range(N):
        v[r] = b[i, r]
        for c in range(N):
            m[r, c] = a[i, r, c]
    d = 1.0
    for k in range(N):
        pivot = k
        for r in range(k + 1, N):
            if math.fabs(m[r, k]) > math.fabs(m[pivot, k]):
                pivot = r
        if pivot != k:
            d = -d
            v[k], v[pivot] = v[pivot], v[k]
            for c in range(N):
                m[k, c], m[pivot, c] = m[pivot, c], m[k, c]
        d *= m[k, k]
        for r in range(k + 1, N):
            factor = m[r, k] / m[k, k]
            v[r] -= factor * v[k]
            for c in range(k, N):
                m[r, c] -= factor * m[k, c]
    for r in range(N - 1, -1, -1):
        s = v[r]
        for c in range(r + 1, N):
            s -= m[r, c] * v[c]
        v[r] = s / m[r, r]
    for r in range(N):
        x[i, r] = v[r]
    det[i] = d


def inputs(rng):
    return {"a": rng.standard_normal((12, N, N)) + np.eye(N), "b": rng.standard_normal((12, N))}


def main(rng):
    given = inputs(rng)
    x, det = np.zeros((12, N)), np.zeros(12)
    solve[1, 16](given["a"], given["b"], x, det)
    return {"x": x, "det": det}


def expected(given):
    return {"x": np.linalg.solve(given["a"], given["b"][..., None])[..., 0], "det": np.linalg.det(given["a"])}


TOLERANCE = 1e-7
