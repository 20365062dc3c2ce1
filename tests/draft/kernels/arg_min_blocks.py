"""The least number of each block and its first position, by shuffles of both."""

import numpy as np
from numba import cuda

WARP = 32


@cuda.jit(device=True)
def less(value, index, other, other_index):
    return other < value or (other == value and other_index < index)


@cuda.jit
def argmin(x, values, places):
    i = cuda.grid(1)
    value = x[i] if i < x.size else 2**31 - 1
    index = i
    for offset in (16, 8, 4, 2, 1):
        other = cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        other_index = cuda.shfl_down_sync(0xFFFFFFFF, index, offset)
        if less(value, index, other, other_index):
            value, index = other, other_index
    if cuda.laneid == 0:
        values[cuda.blockIdx.x] = value
        places[cuda.blockIdx.x] = index


def inputs(rng):
    return {"x": rng.integers(-20, 20, 90, dtype=np.int32)}


def main(rng):
    values, places = np.zeros(3, np.int32), np.zeros(3, np.int32)
    argmin[3, WARP](inputs(rng)["x"], values, places)
    return {"values": values, "places": places}


def expected(given):
    rows = [given["x"][k : k + 32] for k in (0, 32, 64)]
    return {
        "values": np.array([row.min() for row in rows]),
        "places": np.array([32 * k + row.argmin() for k, row in enumerate(rows)]),
    }
