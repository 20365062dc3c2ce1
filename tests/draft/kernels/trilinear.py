"""A volume between its points: trilinear interpolation at rows of coordinates."""

import numpy as np
from numba import cuda


@cuda.jit
def trilinear(volume, coordinates, out):
    i = cuda.grid(1)
    if i >= coordinates.shape[0]:
        return
    z, y, x = coordinates[i]
    z0, y0, x0 = int(z), int(y), int(x)
    fz, fy, fx = z - z0, y - y0, x - x0
    total = 0.0
    for dz in range(2):
        wz = fz if dz else 1 - fz
        for dy in range(2):
            wy = fy if dy else 1 - fy
            for dx in range(2):
                wx = fx if dx else 1 - fx
                total += wz * wy * wx * volume[z0 + dz, y0 + dy, x0 + dx]
    out[i] = total


def inputs(rng):
    return {"volume": rng.random((4, 5, 6)), "coordinates": rng.random((10, 3)) * [2.9, 3.9, 4.9]}


def main(rng):
    given = inputs(rng)
    out = np.zeros(10)
    trilinear[1, 16](given["volume"], given["coordinates"], out)
    return {"out": out}


def expected(inputs):
    volume, coordinates = inputs["volume"], inputs["coordinates"]
    whole = coordinates.astype(int)
    total = np.zeros(len(whole))
    for corner in np.ndindex(2, 2, 2):
        weights = np.where(corner, coordinates - whole, 1 - (coordinates - whole)).prod(1)
        total += weights * volume[tuple((whole + corner).T)]
    return {"out": total}
