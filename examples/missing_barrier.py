"""A kernel with a mistake: run it with ``python -m trifold.simulator examples/missing_barrier.py``.

Each block reverses its 64 elements through shared memory, without a barrier between the writes and the reads. Whether
the result is right depends on which of a block's two warps comes first.
"""

import numpy as np
from numba import cuda, float32


@cuda.jit
def reverse(x, y):
    tile = cuda.shared.array(64, float32)
    i, lane = cuda.grid(1), cuda.threadIdx.x
    tile[lane] = x[i]
    # cuda.syncthreads() is missing here
    y[i] = tile[63 - lane]


x = np.arange(256, dtype=np.float32)
y = np.zeros_like(x)
reverse[4, 64](x, y)
print(y)
