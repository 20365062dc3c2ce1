"""y = a x + y in float16: once by operators, once by ``cuda.fp16``'s fused operation."""

import numpy as np
from numba import cuda, types


@cuda.jit
def axpy(a, x, y, fused):
    i = cuda.grid(1)
    if i < x.size:
        old = y[i]
        y[i] = a * x[i] + old
        fused[i] = cuda.fp16.hfma(a, x[i], old)
        if cuda.fp16.hlt(fused[i], types.float16(0)):
            fused[i] = cuda.fp16.hneg(fused[i])


def inputs(rng):
    return {"x": rng.standard_normal(50).astype(np.float16), "y": rng.standard_normal(50).astype(np.float16)}


def main(rng):
    given = inputs(rng)
    y, fused = given["y"].copy(), np.zeros(50, np.float16)
    axpy[2, 32](np.float16(1.5), given["x"], y, fused)
    return {"y": y, "fused": fused}


def expected(given):
    exact = 1.5 * given["x"].astype(np.float64) + given["y"]
    return {"fused": np.abs(exact.astype(np.float16))}
