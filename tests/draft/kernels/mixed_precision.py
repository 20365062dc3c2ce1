"""Sums of float16, float32 and integers in one accumulator, whose type the loop widens; scalars of NumPy's types."""

import numpy as np
from numba import cuda

SCALE = np.float32(0.25)
OFFSET = np.int16(3)


@cuda.jit
def accumulate(half, single, integers, count, out):
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    acc = half[i]
    for k in range(count):
        acc = acc + single[(i + k) % single.size] * SCALE
        if integers[i] & 1:
            acc += integers[i] + OFFSET
    total = np.float64(acc)
    total /= np.uint8(count)
    out[i, 0] = total
    out[i, 1] = np.float16(total)
    out[i, 2] = np.int8(integers[i] * 7)
    out[i, 3] = abs(integers[i]) ** 2 - 2**-1


def inputs(rng):
    return {
        "half": rng.standard_normal(20).astype(np.float16),
        "single": rng.standard_normal(20).astype(np.float32),
        "integers": rng.integers(-100, 100, 20, dtype=np.int16),
    }


def main(rng):
    given = inputs(rng)
    out = np.zeros((20, 4))
    accumulate[1, 32](given["half"], given["single"], given["integers"], 5, out)
    return {"out": out}
