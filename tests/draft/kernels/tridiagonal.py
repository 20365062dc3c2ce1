"""Thomas' algorithm for many tridiagonal systems, interleaved so that neighbours' reads coalesce."""

import numpy as np
from numba import cuda


@cuda.jit
def thomas(lower, diag, upper, rhs, scratch, x):
    s = cuda.grid(1)
    n, systems = diag.shape
    if s >= systems:
        return
    scratch[0, s] = upper[0, s] / diag[0, s]
    x[0, s] = rhs[0, s] / diag[0, s]
    for i in range(1, n):
        m = 1 / (diag[i, s] - lower[i, s] * scratch[i - 1, s])
        scratch[i, s] = upper[i, s] * m
        x[i, s] = (rhs[i, s] - lower[i, s] * x[i - 1, s]) * m
    for i in range(n - 2, -1, -1):
        x[i, s] -= scratch[i, s] * x[i + 1, s]


def inputs(rng):
    given = {name: rng.uniform(-1, 1, (9, 20)) for name in ("lower", "upper", "rhs")}
    return {**given, "diag": rng.uniform(3, 4, (9, 20))}


def main(rng):
    given = inputs(rng)
    x = np.zeros((9, 20))
    thomas[1, 32](given["lower"], given["diag"], given["upper"], given["rhs"], np.zeros((9, 20)), x)
    return {"x": x}


def expected(given):
    x = np.zeros((9, 20))
    for s in range(20):
        a = np.diag(given["diag"][:, s]) + np.diag(given["lower"][1:, s], -1) + np.diag(given["upper"][:-1, s], 1)
        x[:, s] = np.linalg.solve(a, given["rhs"][:, s])
    return {"x": x}
