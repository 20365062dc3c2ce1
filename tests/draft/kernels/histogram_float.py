"""Histogram of floats over a range; what lies outside is counted at the ends."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def histogram(x, low, high, counts):
    nbins = len(counts)
    width = (high - low) / nbins
    for i in range(cuda.grid(1), len(x), cuda.gridsize(1)):
        bin_number = int(math.floor((x[i] - low) / width))
        if bin_number < 0:
            bin_number = 0
        elif bin_number >= nbins:
            bin_number = nbins - 1
        cuda.atomic.add(counts, bin_number, 1)


def inputs(rng):
    return {"x": rng.normal(0, 2, 700)}


def main(rng):
    counts = np.zeros(32, np.int64)
    histogram[3, 32](inputs(rng)["x"], -4.0, 4.0, counts)
    return {"counts": counts}


def expected(given):
    place = np.clip(np.floor((given["x"] + 4) / 0.25), 0, 31).astype(int)
    return {"counts": np.bincount(place, minlength=32)}
