"""A Julia set with the real and the imaginary part in float32; ``else`` of the loop marks points that stay."""

import numpy as np
from numba import cuda

LIMIT = 24
C_RE, C_IM = np.float32(-0.8), np.float32(0.156)


@cuda.jit
def julia(zoom, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        re = np.float32(1.5) * (col - out.shape[1] / 2) / (zoom * out.shape[1] / 2)
        im = (row - out.shape[0] / 2) / (zoom * out.shape[0] / 2)
        n = 0
        while n < LIMIT:
            re2 = re * re
            im2 = im * im
            if re2 + im2 > 4.0:
                break
            im = 2 * re * im + C_IM
            re = re2 - im2 + C_RE
            n += 1
        else:
            n = -1
        out[row, col] = n


def inputs(rng):
    return {"zoom": rng.uniform(0.8, 1.2, 1)}


def main(rng):
    out = np.zeros((12, 16), np.int32)
    julia[(2, 2), (8, 8)](inputs(rng)["zoom"][0], out)
    return {"out": out}
