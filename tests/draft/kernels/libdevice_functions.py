"""Functions of libdevice by their own names: fast and rounded forms, and some that write two results."""

import numpy as np
from numba import cuda
from numba.cuda import libdevice


@cuda.jit
def functions(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[i, 0] = libdevice.rsqrtf(a)
        out[i, 1] = libdevice.fmaf(a, b, np.float32(1))
        out[i, 2] = libdevice.hypotf(a, b)
        s, c = libdevice.sincosf(b)
        out[i, 3] = s * s + c * c
        out[i, 4] = libdevice.fast_expf(-b)
        out[i, 5] = libdevice.cbrtf(b)
        out[i, 6] = libdevice.rintf(b)
        out[i, 7] = libdevice.saturatef(b)


def inputs(rng):
    return {"x": rng.uniform(0.1, 9, 30).astype(np.float32), "y": rng.uniform(-3, 3, 30).astype(np.float32)}


def main(rng):
    given = inputs(rng)
    out = np.zeros((30, 8), np.float32)
    functions[1, 32](given["x"], given["y"], out)
    return {"out": out}


def expected(given):
    a, b = given["x"].astype(np.float64), given["y"].astype(np.float64)
    ones = np.ones(30)
    columns = (a**-0.5, a * b + 1, np.hypot(a, b), ones, np.exp(-b), np.cbrt(b), np.rint(b), np.clip(b, 0, 1))
    return {"out": np.stack(columns, 1)}
