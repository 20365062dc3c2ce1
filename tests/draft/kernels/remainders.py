"""% and // of floats, whose remainder Numba computes by a division."""

import numpy as np
from numba import cuda, float32


@cuda.jit
def kernel(x, y, a, o, p):
    i = cuda.grid(1)
    o[i, 0] = x[i] % y[i]
    o[i, 1] = x[i] // y[i]
    p[i, 0] = a[i] % float32(0.3)
    p[i, 1] = a[i] // float32(0.3)
    p[i, 2] = a[i] % a[(i + 1) % 4]


def main(rng):
    o = np.zeros((4, 2))
    p = np.zeros((4, 3), np.float32)
    kernel[1, 4](
        np.array([3.0, -3.0, 1e10, 5.5]),
        np.array([np.inf, np.inf, 0.3, -2.0]),
        np.array([1e10, -7.3, 2.5, 1e-3], np.float32),
        o,
        p,
    )
    return {"o": o, "p": p}
