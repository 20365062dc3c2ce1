"""xorshift128+ with a state of two 64-bit words a thread; uniform doubles in [0, 1)."""

import numpy as np
from numba import cuda, uint64


@cuda.jit(device=True)
def next_bits(s0, s1):
    s0 ^= s0 << uint64(23)
    s0 ^= s0 >> uint64(17)
    s0 ^= s1
    s0 ^= s1 >> uint64(26)
    return s1, s0, s0 + s1


@cuda.jit
def fill(states, out):
    i = cuda.grid(1)
    if i < states.shape[0]:
        a = states[i, 0]
        b = states[i, 1]
        for k in range(out.shape[1]):
            a, b, bits = next_bits(a, b)
            out[i, k] = (bits >> uint64(11)) * (1.0 / (1 << 53))
        states[i, 0] = a
        states[i, 1] = b


def inputs(rng):
    return {"states": rng.integers(1, 2**64, (20, 2), dtype=np.uint64)}


def main(rng):
    states = inputs(rng)["states"].copy()
    out = np.zeros((20, 5))
    fill[1, 32](states, out)
    return {"states": states, "out": out}


def expected(given):
    a, b = given["states"].T.copy()
    out = np.zeros((20, 5))
    for k in range(5):
        a = a ^ (a << np.uint64(23))
        a = a ^ (a >> np.uint64(17)) ^ b ^ (b >> np.uint64(26))
        a, b = b, a
        out[:, k] = ((a + b) >> np.uint64(11)) / 2.0**53
    return {"states": np.stack([a, b], 1), "out": out}
