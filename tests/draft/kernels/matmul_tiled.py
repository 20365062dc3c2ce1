"""C = A B with tiles of both in shared memory; the edges are not multiples of the tile."""

import numpy as np
from numba import cuda, float32

TILE = 8


@cuda.jit
def matmul(a, b, c):
    s_a = cuda.shared.array(shape=(TILE, TILE), dtype=float32)
    s_b = cuda.shared.array(shape=(TILE, TILE), dtype=float32)

    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y

    total = float32(0.0)
    for i in range((a.shape[1] + TILE - 1) // TILE):
        # zeros outside the matrices, so that the sum needs no condition
        s_a[ty, tx] = 0
        s_b[ty, tx] = 0
        if y < a.shape[0] and tx + i * TILE < a.shape[1]:
            s_a[ty, tx] = a[y, tx + i * TILE]
        if x < b.shape[1] and ty + i * TILE < b.shape[0]:
            s_b[ty, tx] = b[ty + i * TILE, x]
        cuda.syncthreads()

        for j in range(TILE):
            total += s_a[ty, j] * s_b[j, tx]
        cuda.syncthreads()

    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def inputs(rng):
    return {
        "a": rng.standard_normal((13, 21)).astype(np.float32),
        "b": rng.standard_normal((21, 10)).astype(np.float32),
    }


def main(rng):
    given = inputs(rng)
    a, b = given["a"], given["b"]
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    grid = (-(-c.shape[1] // TILE), -(-c.shape[0] // TILE))
    matmul[grid, (TILE, TILE)](a, b, c)
    return {"c": c}


def expected(given):
    return {"c": given["a"].astype(np.float64) @ given["b"]}
