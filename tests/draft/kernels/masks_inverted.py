"""The inverse of booleans, by ~: a boolean, and no integer."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def inside(x):
    return x > 0


@cuda.jit
def kernel(mask, a, o):
    i = cuda.grid(1)
    if ~mask[i]:
        o[i, 0] = 1
    o[i, 1] = ~(a[i] < 0)
    m = a[i] > 1
    m = ~m
    o[i, 2] = m
    o[i, 3] = ~m | (a[i] == 3)
    o[i, 4] = 5 if ~inside(a[i]) else 7
    o[i, 5] = ~a[i]
    while ~m and o[i, 6] < 3:
        o[i, 6] += 1
    mask[i] = ~mask[i]


def main(rng):
    o = np.zeros((4, 7), np.int64)
    mask = np.array([True, False, True, False])
    kernel[1, 4](mask, np.array([-1, 0, 3, 2]), o)
    return {"o": o, "mask": mask}
