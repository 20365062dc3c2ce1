"""Linear interpolation in a sorted table: the place by bisection, the ends are held."""

import numpy as np
from numba import cuda


@cuda.jit
def interpolate(x, xp, fp, out):
    tid = cuda.grid(1)
    if tid >= x.size:
        return
    v = x[tid]
    if v <= xp[0]:
        out[tid] = fp[0]
    elif v >= xp[xp.size - 1]:
        out[tid] = fp[fp.size - 1]
    else:
        lo, hi = 0, xp.size - 1
        while hi - lo > 1:
            mid = (lo + hi) >> 1
            if xp[mid] <= v:
                lo = mid
            else:
                hi = mid
        w = (v - xp[lo]) / (xp[hi] - xp[lo])
        out[tid] = (1 - w) * fp[lo] + w * fp[hi]


def inputs(rng):
    return {"x": rng.uniform(-1, 6, 60), "xp": np.sort(rng.uniform(0, 5, 12)), "fp": rng.standard_normal(12)}


def main(rng):
    given = inputs(rng)
    out = np.zeros(60)
    interpolate[2, 32](given["x"], given["xp"], given["fp"], out)
    return {"out": out}


def expected(given):
    return {"out": np.interp(given["x"], given["xp"], given["fp"])}
