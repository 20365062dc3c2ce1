"""Keeps the elements that pass a test, in order: places by a scan with ballots within a warp and sums of warps."""

import numpy as np
from numba import cuda

WARPS = 2


@cuda.jit
def compact(x, threshold, out, count):
    warp_sums = cuda.shared.array(WARPS, np.int32)
    t = cuda.threadIdx.x
    lane = cuda.laneid
    warp = t // 32
    base = 0
    for start in range(0, x.size, cuda.blockDim.x):
        i = start + t
        keep = i < x.size and x[i] > threshold
        votes = cuda.ballot_sync(0xFFFFFFFF, keep)
        before = cuda.popc(votes & ((1 << lane) - 1))
        if lane == 0:
            warp_sums[warp] = cuda.popc(votes)
        cuda.syncthreads()
        offset = base + before
        for w in range(warp):
            offset += warp_sums[w]
        if keep:
            out[offset] = x[i]
        for w in range(WARPS):
            base += warp_sums[w]
        cuda.syncthreads()
    if t == 0:
        count[0] = base


def inputs(rng):
    return {"x": rng.standard_normal(200)}


def main(rng):
    out, count = np.zeros(200), np.zeros(1, np.int64)
    compact[1, 32 * WARPS](inputs(rng)["x"], 0.25, out, count)
    return {"out": out, "count": count}


def expected(given):
    kept = given["x"][given["x"] > 0.25]
    return {"out": np.pad(kept, (0, 200 - kept.size)), "count": np.array([kept.size])}
