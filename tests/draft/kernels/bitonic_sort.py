"""Bitonic sort in shared memory, of keys with their values."""

import numpy as np
from numba import cuda, float32, int32

N = 64


@cuda.jit
def bitonic(keys, values):
    k = cuda.shared.array(N, float32)
    v = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    k[t], v[t] = keys[t], values[t]
    cuda.syncthreads()
    size = 2
    while size <= N:
        stride = size // 2
        while stride > 0:
            partner = t ^ stride
            if partner > t:
                ascending = (t & size) == 0
                if (k[t] > k[partner]) == ascending:
                    k[t], k[partner] = k[partner], k[t]
                    v[t], v[partner] = v[partner], v[t]
            cuda.syncthreads()
            stride //= 2
        size *= 2
    keys[t], values[t] = k[t], v[t]


def inputs(rng):
    return {"keys": rng.permutation(N).astype(np.float32) / 7}


def main(rng):
    keys = inputs(rng)["keys"].copy()
    values = np.arange(N, dtype=np.int32)
    bitonic[1, N](keys, values)
    return {"keys": keys, "values": values}


def expected(given):
    order = np.argsort(given["keys"])
    return {"keys": given["keys"][order], "values": order}
