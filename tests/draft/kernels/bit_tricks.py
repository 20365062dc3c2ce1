"""Integers of 32 bits, bit by bit: rotations, parity, next power of two, Gray code, isolated bits."""

import numpy as np
from numba import cuda, uint32


@cuda.jit(device=True)
def rotate_left(x, r):
    return uint32((x << r) | (x >> (uint32(32) - r)))


@cuda.jit
def tricks(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    v = x[i]
    out[i, 0] = rotate_left(v, uint32(7))
    p = v
    for shift in (16, 8, 4, 2, 1):
        p ^= p >> uint32(shift)
    out[i, 1] = p & uint32(1)
    n = uint32(v - uint32(1))
    n |= n >> uint32(1)
    n |= n >> uint32(2)
    n |= n >> uint32(4)
    n |= n >> uint32(8)
    n |= n >> uint32(16)
    out[i, 2] = n + uint32(1)
    out[i, 3] = v ^ (v >> uint32(1))
    out[i, 4] = v & (~v + uint32(1))  # the lowest bit that is set
    out[i, 5] = ~v
    out[i, 6] = (v >> uint32(24)) | ((v >> uint32(8)) & 0xFF00) | ((v << uint32(8)) & 0xFF0000) | (v << uint32(24))


def inputs(rng):
    return {"x": np.concatenate([rng.integers(0, 2**32, 45, dtype=np.uint32), np.array([0, 1, 2**32 - 1], np.uint32)])}


def main(rng):
    x = inputs(rng)["x"]
    out = np.zeros((x.size, 7), np.uint32)
    tricks[2, 32](x, out)
    return {"out": out}


def expected(given):
    rows = []
    for v in map(int, given["x"]):
        text = f"{v:032b}"
        upward = 1 << (v - 1).bit_length() if v else 0
        rows.append(
            [
                int(text[7:] + text[:7], 2),
                text.count("1") % 2,
                upward % 2**32,
                v ^ v >> 1,
                v & -v,
                v ^ 0xFFFFFFFF,
                int.from_bytes(v.to_bytes(4, "little"), "big"),
            ]
        )
    return {"out": np.array(rows, np.uint32)}
