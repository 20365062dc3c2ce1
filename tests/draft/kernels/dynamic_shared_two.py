"""Two arrays of different types in one piece of dynamic shared memory: moving averages with their counts."""

import numpy as np
from numba import cuda, float64, int32


@cuda.jit
def moving_average(x, window, out, counts):
    threads = cuda.blockDim.x
    values = cuda.shared.array(0, dtype=float64)[:threads]
    valid = cuda.shared.array(0, dtype=int32)[2 * threads :]
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    ok = i < x.size and x[i] == x[i]  # NaN is not equal to itself
    values[t] = x[i] if ok else 0.0
    valid[t] = 1 if ok else 0
    cuda.syncthreads()
    total = 0.0
    count = 0
    for k in range(max(0, t - window + 1), t + 1):
        total += values[k]
        count += valid[k]
    if i < x.size:
        out[i] = total / count if count else 0.0
        counts[i] = count


def inputs(rng):
    return {"x": np.where(rng.random(70) < 0.1, np.nan, rng.standard_normal(70))}


def main(rng):
    out, counts = np.zeros(70), np.zeros(70, np.int8)
    moving_average[3, 32, 0, 32 * 12](inputs(rng)["x"], 5, out, counts)
    return {"out": out, "counts": counts}


def expected(given):
    out, counts = np.zeros(70), np.zeros(70, int)
    for i in range(70):
        window = given["x"][max(i - 4, i // 32 * 32) : i + 1]
        kept = window[~np.isnan(window)]
        out[i], counts[i] = kept.sum() / max(kept.size, 1), kept.size
    return {"out": out, "counts": counts}
