"""Polynomials with coefficients in a tuple of the closure, one kernel for each dtype, and their derivatives."""

import numpy as np
from numba import cuda


def make_kernel(coefficients):
    degree = len(coefficients) - 1

    @cuda.jit(device=True)
    def horner(x):
        y = coefficients[degree]
        dy = 0.0
        for k in range(degree - 1, -1, -1):
            dy = dy * x + y
            y = y * x + coefficients[k]
        return y, dy

    @cuda.jit
    def kernel(x, y, dy):
        i = cuda.grid(1)
        if i < x.size:
            y[i], dy[i] = horner(x[i])

    return kernel


cubic = make_kernel((1.0, -2.0, 0.5, 3.0))


def inputs(rng):
    return {"x": rng.uniform(-2, 2, 40), "small": rng.uniform(-2, 2, 40).astype(np.float32)}


def main(rng):
    given = inputs(rng)
    y, dy = np.zeros(40), np.zeros(40)
    y32, dy32 = np.zeros(40, np.float32), np.zeros(40, np.float32)
    cubic[2, 32](given["x"], y, dy)
    cubic[2, 32](given["small"], y32, dy32)
    return {"y": y, "dy": dy, "y32": y32, "dy32": dy32}


def expected(given):
    p = np.polynomial.Polynomial([1.0, -2.0, 0.5, 3.0])
    return {"y": p(given["x"]), "dy": p.deriv()(given["x"]), "y32": p(given["small"].astype(float))}
