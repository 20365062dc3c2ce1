"""The kernels that the tests debug: one with barriers, one of them in a helper, and one without any."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numpy as np
from numba import cuda, float32

THREADS = 8


@cuda.jit(device=True)
def right_neighbour(shared, value):
    t = cuda.threadIdx.x
    shared[t] = value
    cuda.syncthreads()
    other = shared[(t + 1) % THREADS]
    return -other


@cuda.jit(device=True)
def doubled(value):
    twice = value + value
    return twice + 1


@cuda.jit
def rotate(x, y):
    shared = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    value = x[t]
    other = right_neighbour(shared, value)
    other = doubled(other)
    cuda.syncthreads()
    y[t] = other


@cuda.jit
def copy(x, y):
    i = cuda.grid(1)
    value = x[i]
    y[i] = value


def main():
    x = np.arange(THREADS, dtype=np.float32)
    y = np.zeros_like(x)
    rotate[1, THREADS](x, y)
    copy[2, THREADS // 2](y, x)
    total = float(x.sum())
    return total / 2


if __name__ == "__main__":
    print(main())
