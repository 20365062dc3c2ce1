"""Rows are scaled; what is asserted holds, and what would be printed is not."""

import numpy as np
from numba import cuda


@cuda.jit
def scale(x, factors, out):
    i = cuda.grid(1)
    assert x.shape[0] == out.shape[0], "as many rows"
    if i < x.shape[0]:
        if factors[i] < 0:
            print("100% negative", factors[i], "in row", i)
        out[i, :] = 0.5
        for j in range(1, out.shape[1], 2):
            out[i, j] = x[i, j] * factors[i]


def inputs(rng):
    return {"x": rng.random((20, 5)), "factors": rng.random(20)}


def main(rng):
    given = inputs(rng)
    out = np.zeros((20, 5))
    scale[2, 16](given["x"], given["factors"], out)
    return {"out": out}


def expected(given):
    out = np.full((20, 5), 0.5)
    out[:, 1::2] = given["x"][:, 1::2] * given["factors"][:, np.newaxis]
    return {"out": out}
