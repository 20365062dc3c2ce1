"""Pi from points in the unit square: each thread has an xorshift generator, and counts for itself."""

import numpy as np
from numba import cuda, float32, uint32


@cuda.jit(device=True, inline=True)
def xorshift32(state):
    state ^= uint32(state << uint32(13))
    state ^= uint32(state >> uint32(17))
    state ^= uint32(state << uint32(5))
    return uint32(state)


@cuda.jit
def count_hits(seeds, rounds, hits):
    tid = cuda.grid(1)
    if tid >= seeds.shape[0]:
        return
    state = seeds[tid]
    inside = 0
    for _ in range(rounds):
        state = xorshift32(state)
        x = float32(state) * float32(2.3283064e-10)
        state = xorshift32(state)
        y = float32(state) * float32(2.3283064e-10)
        if x * x + y * y <= 1.0:
            inside += 1
    hits[tid] = inside
    seeds[tid] = state


def inputs(rng):
    return {"seeds": rng.integers(1, 2**32, 64, dtype=np.uint32)}


def main(rng):
    seeds = inputs(rng)["seeds"].copy()
    hits = np.zeros(64, np.int64)
    count_hits[2, 32](seeds, 16, hits)
    return {"hits": hits, "seeds": seeds, "pi": 4 * hits.sum(keepdims=True) / (64 * 16)}


def expected(given):
    state = given["seeds"].astype(np.uint32)
    hits = np.zeros(64, np.int64)
    for _ in range(16):
        point = []
        for _ in range(2):
            state = state ^ (state << np.uint32(13))
            state = state ^ (state >> np.uint32(17))
            state = state ^ (state << np.uint32(5))
            point.append(state.astype(np.float32) * np.float32(2.3283064e-10))
        hits += point[0] * point[0] + point[1] * point[1] <= 1.0
    return {"hits": hits, "seeds": state}
