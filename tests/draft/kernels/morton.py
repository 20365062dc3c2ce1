"""Morton codes of points in a unit cube: bits are spread with masks, and gathered again."""

import numpy as np
from numba import cuda, uint32


@cuda.jit(device=True)
def spread(v):
    v = (v * uint32(0x00010001)) & uint32(0xFF0000FF)
    v = (v * uint32(0x00000101)) & uint32(0x0F00F00F)
    v = (v * uint32(0x00000011)) & uint32(0xC30C30C3)
    v = (v * uint32(0x00000005)) & uint32(0x49249249)
    return v


@cuda.jit
def encode(points, codes, back):
    i = cuda.grid(1)
    if i < points.shape[0]:
        code = uint32(0)
        for axis in range(3):
            cell = min(max(points[i, axis] * 1024.0, 0.0), 1023.0)
            code |= uint32(spread(uint32(cell)) << uint32(2 - axis))
        codes[i] = code
        x = 0
        for bit in range(10):
            x |= ((code >> uint32(3 * bit + 2)) & 1) << bit
        back[i] = x


def inputs(rng):
    return {"points": rng.random((40, 3)).astype(np.float32)}


def main(rng):
    codes, back = np.zeros(40, np.uint32), np.zeros(40, np.int32)
    encode[2, 32](inputs(rng)["points"], codes, back)
    return {"codes": codes, "back": back}


def expected(given):
    cells = np.clip(given["points"] * np.float32(1024), 0, 1023).astype(int)
    bits = (cells[:, :, None] >> np.arange(10)) & 1
    weights = 1 << (3 * np.arange(10)[None] + np.array([2, 1, 0])[:, None])
    return {"codes": (bits * weights).sum((1, 2)), "back": cells[:, 0]}
