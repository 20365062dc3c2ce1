"""A thread's index in its launch: the device functions of ``<trifold/launch.cuh>`` and ``<trifold/cuda.cuh>``."""

from numba import cuda


@cuda.jit(device=True)
def thread_index():  # type: ignore[no-untyped-def]
    """The index of this thread in a one-dimensional grid, as int64."""
    return cuda.grid(1)


@cuda.jit(device=True)
def ceil_div(a, b):  # type: ignore[no-untyped-def]
    """``a / b`` rounded up; integers, ``a`` not negative and ``b`` positive."""
    return (a + b - 1) // b
