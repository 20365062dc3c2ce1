"""Primes by trial division of each thread's number, and the gaps' largest by an atomic."""

import math

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def is_prime(n):
    if n < 2:
        return False
    if n % 2 == 0:
        return n == 2
    for d in range(3, int(math.sqrt(n)) + 1, 2):
        if n % d == 0:
            return False
    return True


@cuda.jit
def sieve(first, flags, total):
    i = cuda.grid(1)
    if i < flags.shape[0]:
        flags[i] = is_prime(first + i)
        if flags[i]:
            cuda.atomic.add(total, 0, 1)


def inputs(rng):
    return {"first": rng.integers(0, 1000, 1)}


def main(rng):
    flags, total = np.zeros(100, bool), np.zeros(1, np.int32)
    sieve[4, 32](int(inputs(rng)["first"][0]), flags, total)
    return {"flags": flags, "total": total}


def expected(given):
    numbers = int(given["first"][0]) + np.arange(100)
    flags = np.array([n > 1 and all(n % d for d in range(2, int(n**0.5) + 1)) for n in numbers])
    return {"flags": flags, "total": np.array([flags.sum()])}
