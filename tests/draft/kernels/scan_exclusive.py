"""Exclusive prefix sums (Blelloch): up the tree and down again, in dynamic shared memory; then block sums are added."""

import numpy as np
from numba import cuda, int32


@cuda.jit
def scan_blocks(data, out, sums):
    temp = cuda.shared.array(0, dtype=int32)
    tid = cuda.threadIdx.x
    n = 2 * cuda.blockDim.x
    base = cuda.blockIdx.x * n
    temp[2 * tid] = data[base + 2 * tid]
    temp[2 * tid + 1] = data[base + 2 * tid + 1]

    offset = 1
    d = n >> 1
    while d > 0:
        cuda.syncthreads()
        if tid < d:
            ai = offset * (2 * tid + 1) - 1
            bi = offset * (2 * tid + 2) - 1
            temp[bi] += temp[ai]
        offset <<= 1
        d >>= 1

    if tid == 0:
        sums[cuda.blockIdx.x] = temp[n - 1]
        temp[n - 1] = 0

    d = 1
    while d < n:
        offset >>= 1
        cuda.syncthreads()
        if tid < d:
            ai = offset * (2 * tid + 1) - 1
            bi = offset * (2 * tid + 2) - 1
            t = temp[ai]
            temp[ai] = temp[bi]
            temp[bi] += t
        d <<= 1
    cuda.syncthreads()

    out[base + 2 * tid] = temp[2 * tid]
    out[base + 2 * tid + 1] = temp[2 * tid + 1]


@cuda.jit
def add_sums(out, sums):
    before = int32(0)
    for block in range(cuda.blockIdx.x):
        before += sums[block]
    i = 2 * cuda.grid(1)
    out[i] += before
    out[i + 1] += before


def inputs(rng):
    return {"data": rng.integers(0, 50, 128, dtype=np.int32)}


def main(rng):
    data = inputs(rng)["data"]
    threads, blocks = 16, 4
    out, sums = np.zeros_like(data), np.zeros(blocks, np.int32)
    scan_blocks[blocks, threads, 0, 2 * threads * 4](data, out, sums)
    add_sums[blocks, threads](out, sums)
    return {"out": out, "sums": sums}


def expected(given):
    data = given["data"]
    return {"out": np.cumsum(data) - data, "sums": data.reshape(4, 32).sum(1)}
