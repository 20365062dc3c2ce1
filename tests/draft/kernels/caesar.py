"""Shifts letters of a text and leaves the rest; a table of the letters' counts by atomics on the way."""

import numpy as np
from numba import cuda

A, Z, LOWER = ord("A"), ord("Z"), 32


@cuda.jit(device=True)
def shifted(c, key):
    small = c | LOWER
    if A + LOWER <= small <= Z + LOWER:
        base = A + (c & LOWER)
        return base + (c - base + key) % 26
    return c


@cuda.jit
def encipher(text, key, out, counts):
    for i in range(cuda.grid(1), text.shape[0], cuda.gridsize(1)):
        c = shifted(text[i], key)
        out[i] = c
        small = c | LOWER
        if small >= 97 and small <= 122:
            cuda.atomic.inc(counts, small - 97, 0xFFFFFFFF)


def inputs(rng):
    return {"text": rng.integers(32, 127, 150, dtype=np.uint8), "key": rng.integers(-30, 30, 1)}


def main(rng):
    given = inputs(rng)
    out, counts = np.zeros(150, np.uint8), np.zeros(26, np.uint32)
    encipher[2, 32](given["text"], int(given["key"][0]), out, counts)
    return {"out": out, "counts": counts}


def expected(given):
    key = int(given["key"][0])

    def shift(c):
        base = 65 if 65 <= c <= 90 else 97 if 97 <= c <= 122 else None
        return c if base is None else base + (c - base + key) % 26

    out = np.array([shift(int(c)) for c in given["text"]], np.uint8)
    small = out[np.vectorize(lambda c: chr(c).isalpha())(out)] | 32
    return {"out": out, "counts": np.bincount(small - 97, minlength=26)}
