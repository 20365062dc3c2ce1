"""Smallest, largest and sum of integers by atomics alone."""

import numpy as np
from numba import cuda


@cuda.jit
def statistics(x, result):
    pos = cuda.grid(1)
    if pos < x.size:
        cuda.atomic.add(result, 0, x[pos])
        cuda.atomic.min(result, 1, x[pos])
        cuda.atomic.max(result, 2, x[pos])


def inputs(rng):
    return {"x": rng.integers(-1000, 1000, 200, dtype=np.int32)}


def main(rng):
    result = np.array([0, 2**31 - 1, -(2**31)], np.int32)
    statistics[7, 32](inputs(rng)["x"], result)
    return {"result": result}


def expected(given):
    x = given["x"]
    return {"result": np.array([x.sum(), x.min(), x.max()])}
