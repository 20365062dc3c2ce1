"""Inclusive prefix sums of one block (Hillis and Steele): two buffers, so that a step has one barrier."""

import numba
import numpy as np
from numba import cuda

N = 64


@cuda.jit
def inclusive_scan(values, result):
    buffers = cuda.shared.array((2, N), numba.int64)
    t = cuda.threadIdx.x
    source = 0
    buffers[source, t] = values[t]
    cuda.syncthreads()
    offset = 1
    while offset < N:
        target = 1 - source
        if t >= offset:
            buffers[target, t] = buffers[source, t] + buffers[source, t - offset]
        else:
            buffers[target, t] = buffers[source, t]
        cuda.syncthreads()
        source = target
        offset *= 2
    result[t] = buffers[source, t]


def inputs(rng):
    return {"values": rng.integers(-100, 100, N)}


def main(rng):
    result = np.empty(N, np.int64)
    inclusive_scan[1, N](inputs(rng)["values"], result)
    return {"result": result}


def expected(given):
    return {"result": np.cumsum(given["values"])}
