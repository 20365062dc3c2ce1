"""A linear congruential generator that leaps: thread i begins i steps after the seed, by fast exponentiation."""

import numpy as np
from numba import cuda

MULTIPLIER = 1664525
INCREMENT = 1013904223
MASK = 0xFFFFFFFF


@cuda.jit(device=True)
def leap(state, steps):
    a, c = MULTIPLIER, INCREMENT
    total_a, total_c = 1, 0
    while steps:
        if steps & 1:
            total_a = (total_a * a) & MASK
            total_c = (total_c * a + c) & MASK
        c = ((a + 1) * c) & MASK
        a = (a * a) & MASK
        steps >>= 1
    return (total_a * state + total_c) & MASK


@cuda.jit
def numbers(seed, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = leap(seed, i + 1) / 4294967296.0


def inputs(rng):
    return {"seed": rng.integers(0, 2**32, 1)}


def main(rng):
    out = np.zeros(80, np.float32)
    numbers[3, 32](int(inputs(rng)["seed"][0]), out)
    return {"out": out}


def expected(given):
    state, out = int(given["seed"][0]), []
    for _ in range(80):
        state = (state * MULTIPLIER + INCREMENT) & MASK
        out.append(state / 2.0**32)
    return {"out": np.array(out, np.float32)}
