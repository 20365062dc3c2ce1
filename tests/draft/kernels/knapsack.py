"""0/1 knapsack: a launch an item, one thread a capacity; two rows change places in one array."""

import numpy as np
from numba import cuda


@cuda.jit
def item(best, turn, weight, value):
    c = cuda.grid(1)
    if c < best.shape[1]:
        old = best[turn & 1]
        new = best[(turn + 1) & 1]
        without = old[c]
        new[c] = without
        if c >= weight:
            with_it = old[c - weight] + value
            if with_it > without:
                new[c] = with_it


def inputs(rng):
    return {"weights": rng.integers(1, 12, 8), "values": rng.integers(1, 30, 8)}


def main(rng):
    given = inputs(rng)
    best = np.zeros((2, 40), np.int32)
    for k in range(8):
        item[2, 32](best, k, given["weights"][k], given["values"][k])
    return {"best": best[0]}


def expected(given):
    best = np.zeros(40, int)
    for w, v in zip(given["weights"], given["values"], strict=True):
        best[w:] = np.maximum(best[w:], best[:-w] + v)
    return {"best": best}
