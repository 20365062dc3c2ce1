"""Numba's own generator of random numbers: its functions are drafted as device functions, its states are records."""

import numpy as np
from numba import cuda
from numba.cuda.random import (
    xoroshiro128p_next,
    xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)

STATE = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)


@cuda.jit
def draw(states, uniform, normal, normal32, words):
    i = cuda.grid(1)
    if i < states.shape[0]:
        total = 0.0
        for _ in range(4):
            total += xoroshiro128p_uniform_float32(states, i)
        uniform[i] = total / 4 + xoroshiro128p_uniform_float64(states, i)
        normal[i] = xoroshiro128p_normal_float64(states, i)
        normal32[i] = xoroshiro128p_normal_float32(states, i)
        words[i] = xoroshiro128p_next(states, i)


def inputs(rng):
    states = np.zeros(40, STATE)
    states["s0"] = rng.integers(1, 2**63, 40, dtype=np.uint64)
    states["s1"] = rng.integers(1, 2**63, 40, dtype=np.uint64)
    return {"states": states}


def main(rng):
    states = inputs(rng)["states"]
    uniform, normal, normal32 = np.zeros(40), np.zeros(40), np.zeros(40, np.float32)
    words = np.zeros(40, np.uint64)
    draw[3, 16](states, uniform, normal, normal32, words)
    found = {"uniform": uniform, "normal": normal.astype(np.float32), "normal32": normal32}
    return found | {"words": words, "s0": states["s0"].copy()}
