"""The heat equation on a rod: each step reads the buffer that the one before it wrote."""

import numpy as np
from numba import cuda

STEPS = 7


@cuda.jit
def heat(first, second, steps, k):
    i = cuda.grid(1)
    if i >= len(first):
        return
    grid = cuda.cg.this_grid()
    for step in range(steps):
        # Select the buffers of this step
        if step % 2 == 0:
            now = first
            then = second
        else:
            now = second
            then = first
        left = now[i - 1] if i > 0 else 0.0
        right = now[i + 1] if i + 1 < len(now) else 0.0
        then[i] = now[i] + k * (left - 2 * now[i] + right)
        grid.sync()


def inputs(rng):
    return {"rod": rng.random(40)}


def main(rng):
    rod = inputs(rng)["rod"]
    other = np.zeros_like(rod)
    heat[2, 20](rod, other, STEPS, 0.25)
    return {"heat": other}


def expected(inputs):
    rod = inputs["rod"]
    for _ in range(STEPS):
        padded = np.pad(rod, 1)
        rod = rod + 0.25 * (padded[:-2] - 2 * rod + padded[2:])
    return {"heat": rod}
