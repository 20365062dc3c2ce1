"""Device functions that are passed to device functions."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def apply(f, v):
    return f(v)


@cuda.jit(device=True)
def sq(v):
    return v * v


@cuda.jit(device=True)
def twice(f, v):
    w = apply(f, v)
    return apply(f, w)


@cuda.jit(device=True)
def cube(v):
    return v * v * v


@cuda.jit(device=True)
def fold(f, x, n, init):
    total = init
    for i in range(n):
        total = f(total, x[i])
    return total


@cuda.jit(device=True)
def larger(a, b):
    return a if a > b else b


@cuda.jit(device=True)
def plus(a, b):
    return a + b


@cuda.jit
def kernel(x, o):
    i = cuda.grid(1)
    o[i, 0] = apply(sq, x[i])
    o[i, 1] = apply(cube, x[i])
    o[i, 2] = twice(sq, x[i])
    o[i, 3] = fold(larger, x, x.shape[0], -1.0)
    o[i, 4] = fold(plus, x, x.shape[0], 0.0)
    o[i, 5] = apply(f=sq, v=i)


def main(rng):
    o = np.zeros((4, 6))
    kernel[1, 4](np.array([3.0, -1.5, 0.5, 7]), o)
    return {"o": o}
