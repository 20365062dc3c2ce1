"""Histogram of bytes: each block counts in shared memory, then adds its counts to the result."""

import numpy as np
from numba import cuda

BINS = 256


@cuda.jit
def histogram(data, bins):
    counts = cuda.shared.array(BINS, np.int32)
    t = cuda.threadIdx.x
    for k in range(t, BINS, cuda.blockDim.x):
        counts[k] = 0
    cuda.syncthreads()

    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, data.size, stride):
        cuda.atomic.add(counts, data[i], 1)
    cuda.syncthreads()

    for k in range(t, BINS, cuda.blockDim.x):
        if counts[k] > 0:
            cuda.atomic.add(bins, k, counts[k])


def inputs(rng):
    return {"data": rng.integers(0, 256, 1000, dtype=np.uint8)}


def main(rng):
    bins = np.zeros(BINS, np.int32)
    histogram[4, 64](inputs(rng)["data"], bins)
    return {"bins": bins}


def expected(given):
    return {"bins": np.bincount(given["data"], minlength=BINS)}
