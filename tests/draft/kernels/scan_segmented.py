"""Sums within segments of a warp: a flag says where a segment begins, and shuffles carry both on."""

import numpy as np
from numba import cuda

FULL = 0xFFFFFFFF


@cuda.jit
def segmented_scan(values, flags, out):
    i = cuda.grid(1)
    lane = cuda.laneid
    value = values[i]
    begins = np.int32(flags[i])
    delta = 1
    while delta < 32:
        other = cuda.shfl_up_sync(FULL, value, delta)
        other_begins = cuda.shfl_up_sync(FULL, begins, delta)
        if lane >= delta:
            if begins == 0:
                value += other
            begins |= other_begins
        delta = delta * 2
    out[i] = value


def inputs(rng):
    flags = (rng.random(64) < 0.2).astype(np.uint8)
    flags[[0, 32]] = 1
    return {"values": rng.integers(-9, 9, 64, dtype=np.int32), "flags": flags}


def main(rng):
    given = inputs(rng)
    out = np.zeros(64, np.int32)
    segmented_scan[2, 32](given["values"], given["flags"], out)
    return {"out": out}


def expected(given):
    out, total = np.zeros(64, np.int32), 0
    for i, (value, flag) in enumerate(zip(given["values"], given["flags"], strict=True)):
        total = value if flag else total + value
        out[i] = total
    return {"out": out}
