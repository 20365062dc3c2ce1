"""The first place in a sorted array that is not less, for each of many keys."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def lower_bound(array, key):
    first = np.int32(0)
    count = np.int32(array.shape[0])
    while count > 0:
        half = count // 2
        if array[first + half] < key:
            first += half + 1
            count -= half + 1
        else:
            count = half
    return first


@cuda.jit("void(int64[:], int64[:], int32[:])")
def search(array, keys, places):
    i = cuda.grid(1)
    if i < keys.shape[0]:
        places[i] = lower_bound(array, keys[i])


def inputs(rng):
    return {"array": np.sort(rng.integers(0, 50, 40)), "keys": rng.integers(-5, 60, 70)}


def main(rng):
    given = inputs(rng)
    places = np.zeros(70, np.int32)
    search[3, 32](given["array"], given["keys"], places)
    return {"places": places}


def expected(given):
    return {"places": np.searchsorted(given["array"], given["keys"])}
