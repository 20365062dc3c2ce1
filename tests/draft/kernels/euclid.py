"""Greatest common divisors by recursion's loop form, least common multiples, and Bezout's coefficients."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def extended_gcd(a, b):
    old_s, s = 1, 0
    old_t, t = 0, 1
    while b != 0:
        q = a // b
        a, b = b, a - q * b
        old_s, s = s, old_s - q * s
        old_t, t = t, old_t - q * t
    return a, old_s, old_t


@cuda.jit
def euclid(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        g, s, t = extended_gcd(a[i], b[i])
        out[i, 0] = g
        out[i, 1] = a[i] // g * b[i]
        out[i, 2] = s * a[i] + t * b[i] == g


def inputs(rng):
    return {"a": rng.integers(1, 5000, 30), "b": rng.integers(1, 5000, 30)}


def main(rng):
    given = inputs(rng)
    out = np.zeros((30, 3), np.int64)
    euclid[1, 32](given["a"], given["b"], out)
    return {"out": out}


def expected(given):
    a, b = given["a"], given["b"]
    return {"out": np.stack([np.gcd(a, b), np.lcm(a, b), np.ones(30, int)], 1)}
