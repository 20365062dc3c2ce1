"""A stable sort of a block's numbers: values and their places in two parts of one dynamic shared array."""

import numpy as np
from numba import cuda, float32, int32


@cuda.jit
def sort(x, values, places, n):
    own_values = cuda.shared.array(0, float32)[:n]
    own_places = cuda.shared.array(0, int32)[n : 2 * n]
    t = cuda.threadIdx.x
    if t < n:
        own_values[t], own_places[t] = x[t], t
    cuda.syncthreads()
    for turn in range(n):
        k = 2 * t + turn % 2
        if k + 1 < n and own_values[k] > own_values[k + 1]:
            own_values[k], own_values[k + 1] = own_values[k + 1], own_values[k]
            own_places[k], own_places[k + 1] = own_places[k + 1], own_places[k]
        cuda.syncthreads()
    if t < n:
        values[t] = own_values[t]
        places[t] = own_places[t]


def inputs(rng):
    return {"x": rng.integers(0, 12, 29).astype(np.float32)}


def main(rng):
    x = inputs(rng)["x"]
    values, places = np.zeros_like(x), np.zeros(x.size, np.int32)
    sort[1, 32, 0, 8 * x.size](x, values, places, x.size)
    return {"values": values, "places": places}


def expected(inputs):
    order = np.argsort(inputs["x"], kind="stable")
    return {"values": inputs["x"][order], "places": order.astype(np.int32)}
