"""Constants that are hexadecimal, folded, or rounded to float32 before they meet a float64."""

import numpy as np
from numba import cuda, float32, float64


@cuda.jit
def integers(x, o):
    i = cuda.grid(1)
    o[i, 0] = x[i] * (0x1 + 2)
    o[i, 1] = x[i] - (0x10 - 5)
    o[i, 2] = x[i] & (0xFF << 24)
    o[i, 3] = 0xFFFFFFFF + 1
    o[i, 4] = 0x7FFFFFFF * 0x7FFFFFFF
    o[i, 5] = 0xFF // 2
    o[i, 6] = 0x10**2
    for j in range(0xFFFFFFFE, 0xFFFFFFFE + 4):
        o[i, 7] += j
    o[i, 8] = x[i] & 0xFF_FF
    cuda.atomic.add(o, (i, 9), 0xFFFFFFFF + 1)
    o[i, 10] = x[i] > (0x80000000 - 0x90000000)
    o[i, 11] = 0x80000000
    o[i, 12] = -0x80000000


K = np.float32(0.1)


@cuda.jit(device=True)
def f(a):
    return a * float32(0.3)


@cuda.jit
def floats(n, x, o, o32):
    i = cuda.grid(1)
    o[i, 0] = n[i] * np.float32(0.1)
    o[i, 1] = x[i] < np.float32(0.1)
    o[i, 2] = float32(0.1)
    o[i, 3] = float32(16777217)
    o[i, 4] = np.float32(0.1) == 0.1
    o[i, 5] = 0.5 if n[i] > 5 else float32(0.1)
    w = float64(0.0)
    w += np.float32(0.1)
    o[i, 6] = w
    o[i, 7] = float64(np.float32(0.1))
    o[i, 8] = f(x[i])
    o[i, 9] = f(n[i])
    o[i, 10] = K
    o[i, 11] = float32(1e39)
    c = float32(0.7)
    o[i, 12] = c + x[i]
    o32[i] = float32(0.1) * x[i] + 0.1
    z = complex(float32(0.1), 0) * x[i]
    o[i, 13] = z.real


def main(rng):
    o = np.zeros((3, 13), np.int64)
    integers[1, 3](np.array([1000, 5, -9]), o)
    f, f32 = np.zeros((1, 14)), np.zeros(1, np.float32)
    floats[1, 1](np.array([3]), np.array([0.1]), f, f32)
    return {"o": o, "f": f, "f32": f32}
