"""Philox 4x32-10: numbers by counter and key, four a call, in a local array."""

import numpy as np
from numba import cuda, uint32, uint64

M0, M1 = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
W0, W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


@cuda.jit(device=True)
def mulhilo(a, b):
    product = uint64(a) * uint64(b)
    return uint32(product >> uint64(32)), uint32(product)


@cuda.jit(device=True)
def philox(counter, k0, k1):
    for _ in range(10):
        hi0, lo0 = mulhilo(M0, counter[0])
        hi1, lo1 = mulhilo(M1, counter[2])
        counter[0] = hi1 ^ counter[1] ^ k0
        counter[1] = lo1
        counter[2] = hi0 ^ counter[3] ^ k1
        counter[3] = lo0
        k0 = uint32(k0 + W0)
        k1 = uint32(k1 + W1)


@cuda.jit
def generate(key, out):
    counter = cuda.local.array(4, uint32)
    i = cuda.grid(1)
    if 4 * i < out.size:
        counter[0] = i
        counter[1] = counter[2] = counter[3] = 0
        philox(counter, uint32(key[0]), uint32(key[1]))
        for k in range(4):
            out[4 * i + k] = counter[k]


def inputs(rng):
    return {"key": rng.integers(0, 2**32, 2, dtype=np.uint32)}


def main(rng):
    out = np.zeros(128, np.uint32)
    generate[1, 32](inputs(rng)["key"], out)
    return {"out": out}


def expected(given):
    rows = []
    for i in range(32):
        c, (k0, k1) = [i, 0, 0, 0], map(int, given["key"])
        for _ in range(10):
            p0, p1 = int(M0) * c[0], int(M1) * c[2]
            c = [p1 >> 32 ^ c[1] ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
            k0, k1 = (k0 + int(W0)) & 0xFFFFFFFF, (k1 + int(W1)) & 0xFFFFFFFF
        rows += c
    return {"out": np.array(rows, np.uint32)}
