"""Communication between blocks: barriers of the whole grid, and a warp that hands its work to another block."""

import numpy as np
from numba import cuda

from tests.simulator.catalogue.case import ANY, read, right, waits, write, wrong

WARP = 32


def _run_cooperative(kernel):
    x = np.arange(4 * 32, dtype=np.float64)
    y = np.zeros_like(x)
    kernel[4, 32](x, y)
    np.testing.assert_array_equal(y, np.roll(2 * np.arange(4 * 32), 1))


@right(run=_run_cooperative)
@cuda.jit
def cooperative_shift(x, y):
    """All blocks double their elements; after the grid's barrier each reads its neighbour's."""
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    x[i] *= 2
    grid.sync()
    y[i] = x[i - 1]


@wrong("race", "x", "global", write("first", 31, 0), read("second", 0, 1), run=_run_cooperative)
@cuda.jit
def cooperative_shift_with_block_barrier(x, y):
    i = cuda.grid(1)
    x[i] *= 2  # first
    cuda.syncthreads()
    y[i] = x[i - 1] if i > 0 else 254  # second


@wrong("deadlock", None, None, waits("grid.sync", "first", 0, 1), run=_run_cooperative)
@cuda.jit
def cooperative_shift_without_the_first_block(x, y):
    """The first block has nothing to wait for and leaves; the barrier counts all blocks."""
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    x[i] *= 2
    if cuda.blockIdx.x > 0:
        grid.sync()  # first
        y[i] = x[i - 1]


def _run_hand_over(kernel):
    """The second block waits for the first one's warp, lane 0 for lane 0."""
    data = np.zeros(WARP, dtype=np.float32)
    ready = np.zeros(1, dtype=np.int32)
    y = np.zeros(WARP, dtype=np.float32)
    kernel[2, WARP](data, ready, y)
    np.testing.assert_array_equal(y, np.arange(WARP)[::-1])


@right(run=_run_hand_over)
@cuda.jit
def warp_hands_over(data, ready, y):
    """All lanes write, then meet; lane 0 fences for all of them and raises the flag."""
    lane = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[lane] = lane
        cuda.syncwarp()
        if lane == 0:
            cuda.threadfence()
            cuda.atomic.exch(ready, 0, 1)
    else:
        if lane == 0:
            while cuda.atomic.add(ready, 0, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncwarp()
        y[lane] = data[WARP - 1 - lane]


@wrong("race", "data", "global", write("first", ANY, 0), read("second", ANY, 1), run=_run_hand_over)
@cuda.jit
def warp_hands_over_without_meeting(data, ready, y):
    """Lane 0 fences and raises the flag for itself; nobody waited for the other lanes."""
    lane = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[lane] = lane  # first
        if lane == 0:
            cuda.threadfence()
            cuda.atomic.exch(ready, 0, 1)
    else:
        if lane == 0:
            while cuda.atomic.add(ready, 0, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncwarp()
        y[lane] = data[WARP - 1 - lane]  # second


@wrong("race", "data", "global", write("first", ANY, 0), read("second", ANY, 1), run=_run_hand_over)
@cuda.jit
def warp_is_taken_over_without_meeting(data, ready, y):
    """Lane 0 of the second block waits for the flag, its other lanes do not."""
    lane = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[lane] = lane  # first
        cuda.syncwarp()
        if lane == 0:
            cuda.threadfence()
            cuda.atomic.exch(ready, 0, 1)
    else:
        if lane == 0:
            while cuda.atomic.add(ready, 0, 0) == 0:
                pass
            cuda.threadfence()
        y[lane] = data[WARP - 1 - lane]  # second
