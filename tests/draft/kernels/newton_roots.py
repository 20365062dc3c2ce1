"""Cube roots by Newton's method: ``for ... else`` marks those that did not converge."""

import numpy as np
from numba import cuda


@cuda.jit
def cube_root(a, x0, rounds, root, status):
    i = cuda.grid(1)
    if i < a.size:
        x = x0
        for n in range(rounds):
            if x == 0:
                status[i] = -2
                break
            step = (x * x * x - a[i]) / (3 * x * x)
            x -= step
            if abs(step) < 1e-12 * abs(x):
                status[i] = n
                break
        else:
            status[i] = -1
        root[i] = x


def inputs(rng):
    return {"a": rng.uniform(-50, 50, 40)}


def main(rng):
    root, status = np.zeros(40), np.zeros(40, np.int64)
    cube_root[2, 32](inputs(rng)["a"], 1, 60, root, status)
    return {"root": root, "status": status}


def expected(given):
    return {"root": np.cbrt(given["a"])}
