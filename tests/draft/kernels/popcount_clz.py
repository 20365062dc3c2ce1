"""The device's bit intrinsics on 32 and 64 bits."""

import numpy as np
from numba import cuda


@cuda.jit
def intrinsics(a, b, out):
    tid = cuda.grid(1)
    if tid < len(a):
        out[tid, 0] = cuda.popc(a[tid])
        out[tid, 1] = cuda.clz(a[tid])
        out[tid, 2] = cuda.ffs(a[tid])
        out[tid, 3] = cuda.brev(a[tid])
        out[tid, 4] = cuda.popc(b[tid])
        out[tid, 5] = cuda.clz(b[tid])
        out[tid, 6] = cuda.ffs(b[tid])


def inputs(rng):
    a = rng.integers(0, 2**32, 40, dtype=np.uint32) >> rng.integers(0, 32, 40, dtype=np.uint32)
    b = rng.integers(0, 2**64, 40, dtype=np.uint64) >> rng.integers(0, 64, 40, dtype=np.uint64)
    a[0] = b[0] = 0
    return {"a": a, "b": b}


def main(rng):
    given = inputs(rng)
    out = np.zeros((40, 7), np.int64)
    intrinsics[2, 32](given["a"], given["b"], out)
    return {"out": out}


def expected(given):
    rows = []
    for a, b in zip(map(int, given["a"]), map(int, given["b"]), strict=True):
        of = [[v.bit_count(), w - v.bit_length(), (v & -v).bit_length()] for v, w in ((a, 32), (b, 64))]
        rows.append([*of[0], int(f"{a:032b}"[::-1], 2), *of[1]])
    return {"out": np.array(rows)}
