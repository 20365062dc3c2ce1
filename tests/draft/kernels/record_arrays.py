"""Records with arrays as fields, read and written by element, by row and as an argument."""

import numpy as np
from numba import cuda

cell = np.dtype([("id", np.int64), ("f", np.float64, (2, 3)), ("flags", np.uint8, 8)])
BODIES = 9


@cuda.jit(device=True)
def norm2(v):
    return v[0] * v[0] + v[1] * v[1] + v[2] * v[2]


@cuda.jit
def update(cells, out, totals):
    i = cuda.grid(1)
    if i < cells.shape[0]:
        for r in range(2):
            for c in range(3):
                cells[i].f[r, c] += r * 3 + c
                cells[i]["f"][r, c] *= 2
        cells[i].flags[i % 8] = 1
        own = cells[i]
        total = 0.0
        for r in range(own.f.shape[0]):
            total += own.f[r, 0]
        row = own.f[1]
        out[i] = total + row[2]
        totals[i] = norm2(own.f[0])


def main(rng):
    cells = np.zeros(20, cell)
    cells["f"], cells["id"] = rng.normal(size=(20, 2, 3)), np.arange(20)
    out, totals = np.zeros(20), np.zeros(20)
    update[1, 32](cells, out, totals)
    return {"out": out, "f": cells["f"].copy(), "flags": cells["flags"].copy(), "totals": totals}
