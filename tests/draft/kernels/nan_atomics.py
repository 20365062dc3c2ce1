"""The largest and the least number without nan, by atomic.nanmax and nanmin."""

import numpy as np
from numba import cuda


@cuda.jit
def extremes(x, out, counts):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.nanmax(out, 0, x[i])
        cuda.atomic.nanmin(out, 1, x[i])
        cuda.atomic.max(out, 2, x[i])
        cuda.atomic.nanmax(counts, 0, i)


def inputs(rng):
    x = rng.normal(size=60).astype(np.float32)
    x[[0, 7, 59]] = np.nan
    return {"x": x}


def main(rng):
    out, counts = np.array([np.nan, np.nan, -np.inf], np.float32), np.zeros(1, np.int64)
    extremes[2, 32](inputs(rng)["x"], out, counts)
    return {"out": out, "counts": counts}


def expected(given):
    x = given["x"]
    return {"out": np.array([np.nanmax(x), np.nanmin(x), np.nanmax(x)]), "counts": np.array([59])}
