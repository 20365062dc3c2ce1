"""A kernel that stops itself in one of its threads."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numpy as np
from numba import cuda


@cuda.jit
def halve(x):
    i = cuda.grid(1)
    if i == 5:
        breakpoint()
    value = x[i] / 2
    cuda.syncthreads()
    x[i] = value


x = np.arange(8, dtype=np.float32)
halve[2, 4](x)
print("ended", x.sum())
