"""C = alpha A B + beta C, one thread an element, in float64 with a scalar of each type."""

import numpy as np
from numba import cuda


@cuda.jit
def gemm(alpha, a, b, beta, c):
    """alpha is an integer, beta a float: both are made wide enough by the sum."""
    row, col = cuda.grid(2)
    if row < c.shape[0] and col < c.shape[1]:
        acc = 0.0
        for k in range(a.shape[1]):
            acc += a[row, k] * b[k, col]
        c[row, col] = alpha * acc + beta * c[row, col]


def inputs(rng):
    return {name: rng.standard_normal(shape) for name, shape in (("a", (9, 7)), ("b", (7, 12)), ("c", (9, 12)))}


def main(rng):
    given = inputs(rng)
    c = given["c"].copy()
    gemm[(3, 3), (4, 4)](2, given["a"], given["b"], 0.5, c)
    return {"c": c}


def expected(given):
    return {"c": 2 * given["a"] @ given["b"] + 0.5 * given["c"]}
