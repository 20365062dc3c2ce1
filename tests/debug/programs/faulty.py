"""A kernel whose thread 6 reads beyond its array."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def next_of(x, i):
    if i < 0:
        i = 0
    following = x[i + 1]
    return 2 * following


@cuda.jit
def shift(x, y):
    i = cuda.grid(1)
    cuda.syncthreads()
    y[i] = next_of(x, i)


def test_shift():
    x = np.arange(7, dtype=np.float32)
    shift[1, 7](x, np.zeros(7, np.float32))


if __name__ == "__main__":
    test_shift()
