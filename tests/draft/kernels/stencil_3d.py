"""Seven-point stencil on a volume, a three-dimensional grid of threads; the border is copied."""

import numpy as np
from numba import cuda


@cuda.jit
def stencil(src, dst, c0, c1):
    i, j, k = cuda.grid(3)
    nx, ny, nz = src.shape
    if i < nx and j < ny and k < nz:
        if 0 < i < nx - 1 and 0 < j < ny - 1 and 0 < k < nz - 1:
            around = src[i - 1, j, k] + src[i + 1, j, k] + src[i, j - 1, k] + src[i, j + 1, k]
            around += src[i, j, k - 1] + src[i, j, k + 1]
            dst[i, j, k] = c0 * src[i, j, k] + c1 * around
        else:
            dst[i, j, k] = src[i, j, k]


def inputs(rng):
    return {"src": rng.standard_normal((6, 7, 9)).astype(np.float32)}


def main(rng):
    src = inputs(rng)["src"]
    dst = np.zeros_like(src)
    stencil[(2, 2, 3), (4, 4, 4)](src, dst, np.float32(0.4), np.float32(0.1))
    return {"dst": dst}


def expected(given):
    u = given["src"].astype(np.float64)
    dst = u.copy()
    around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    around = around + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
    dst[1:-1, 1:-1, 1:-1] = 0.4 * u[1:-1, 1:-1, 1:-1] + 0.1 * around
    return {"dst": dst}
