"""Device functions with barriers, recursion, closures, grid-stride loops."""

import numpy as np
from numba import cuda, float32

from tests.simulator.catalogue.case import read, right, waits, write, wrong

N = 64


@cuda.jit(device=True)
def load_tile(tile, x, first):
    t = cuda.threadIdx.x
    tile[t] = x[first + t]
    cuda.syncthreads()  # inside


@cuda.jit(device=True)
def load_tile_and_run_on(tile, x, first):
    t = cuda.threadIdx.x
    tile[t] = x[first + t]  # first


def _run_reversed_blocks(kernel):
    x = np.arange(3 * N, dtype=np.float32)
    y = np.zeros_like(x)
    kernel[3, N](x, y)
    np.testing.assert_array_equal(y.reshape(3, N), x.reshape(3, N)[:, ::-1])


@right(run=_run_reversed_blocks, helpers=(load_tile,))
@cuda.jit
def barrier_in_a_device_function(x, y):
    tile = cuda.shared.array(N, float32)
    load_tile(tile, x, cuda.blockIdx.x * N)
    y[cuda.grid(1)] = tile[N - 1 - cuda.threadIdx.x]


@wrong("barrier divergence", None, None, waits("syncthreads", "inside", 0), waits("syncthreads", "second", 63),
       run=_run_reversed_blocks, helpers=(load_tile,))  # fmt: skip
@cuda.jit
def device_function_for_all_but_one(x, y):
    """The barrier is in the function that one thread does not call."""
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    if t < N - 1:
        load_tile(tile, x, cuda.blockIdx.x * N)
    else:
        tile[t] = x[cuda.grid(1)]
        cuda.syncthreads()  # second
    y[cuda.grid(1)] = tile[N - 1 - t]


@wrong("race", "tile", "shared", write("first", 31), read("second", 32), run=_run_reversed_blocks,
       helpers=(load_tile_and_run_on,), or_kinds=("uninitialised read",))  # fmt: skip
@cuda.jit
def device_function_without_barrier(x, y):
    """Upper threads read what lower ones wrote, lower ones only after the barrier."""
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    load_tile_and_run_on(tile, x, cuda.blockIdx.x * N)
    v = tile[N - 1 - t] if t >= N // 2 else float32(0)  # second
    cuda.syncthreads()
    if t < N // 2:
        v = tile[N - 1 - t]
    y[cuda.grid(1)] = v


@cuda.jit(device=True)
def tree_step(acc, s):
    """Adds the upper half to the lower one, then the same of the half: recursion with a barrier in each call."""
    t = cuda.threadIdx.x
    cuda.syncthreads()
    if s > 0:
        if t < s:
            acc[t] += acc[t + s]
        tree_step(acc, s // 2)


@cuda.jit(device=True)
def tree_step_without_barrier(acc, s):
    t = cuda.threadIdx.x
    if s > 0:
        if t < s:
            acc[t] += acc[t + s]  # first, second
        tree_step_without_barrier(acc, s // 2)


def _run_sums(kernel):
    x = np.arange(2 * N, dtype=np.float32)
    sums = np.zeros(2, dtype=np.float32)
    kernel[2, N](x, sums)
    np.testing.assert_array_equal(sums, x.reshape(2, N).sum(axis=1))


@right(run=_run_sums, helpers=(tree_step,))
@cuda.jit
def recursive_tree_sum(x, sums):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    tree_step(acc, N // 2)
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


@wrong("race", "acc", "shared", read("first", 0), write("second", 1), run=_run_sums,
       helpers=(tree_step_without_barrier,))  # fmt: skip
@cuda.jit
def recursive_tree_sum_without_barrier(x, sums):
    acc = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    tree_step_without_barrier(acc, N // 2)
    cuda.syncthreads()
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


def _block_reduction(combine):
    """A kernel for a binary operation: the operation is a closure variable of the kernel."""

    @cuda.jit
    def reduce_with(x, results):
        acc = cuda.shared.array(N, float32)
        t = cuda.threadIdx.x
        acc[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        s = N // 2
        while s > 0:
            if t < s:
                acc[t] = combine(acc[t], acc[t + s])
            cuda.syncthreads()
            s //= 2
        if t == 0:
            results[cuda.blockIdx.x] = acc[0]

    return reduce_with


@cuda.jit(device=True)
def add(a, b):
    return a + b


right(run=_run_sums)(_block_reduction(add))


@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def _run_fibonacci(kernel):
    y = np.zeros(10, dtype=np.int64)
    kernel[1, 32](y)
    np.testing.assert_array_equal(y, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34])


@right(run=_run_fibonacci, helpers=(fibonacci,))
@cuda.jit
def fibonacci_numbers(y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = fibonacci(i)


@wrong("out-of-bounds", "y", "global", write("first", 10), run=_run_fibonacci, helpers=(fibonacci,))
@cuda.jit
def fibonacci_numbers_for_all_threads(y):
    i = cuda.grid(1)
    y[i] = fibonacci(min(i, 9))  # first


def _run_stride(kernel):
    x = np.arange(1000, dtype=np.float32)
    y = np.zeros_like(x)
    kernel[3, N](x, y)
    np.testing.assert_array_equal(y, x + 1)


@right(run=_run_stride)
@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] + 1


@wrong("race", "y", "global", write("first", 0, 0), write("first", 0, 1), run=_run_stride, severity="warning")
@cuda.jit
def block_stride_from_grid_index(x, y):
    """Strides by the block, so each element is written by several blocks: the result is right, the time is not."""
    for i in range(cuda.grid(1), x.size, cuda.blockDim.x):
        y[i] = x[i] + 1  # first


@right(run=_run_stride)
@cuda.jit
def grid_stride_by_while(x, y):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    step = cuda.blockDim.x * cuda.gridDim.x
    while i < x.size:
        y[i] = x[i] + 1
        i += step


def _run_weights(kernel):
    rows = np.arange(5 * N, dtype=np.float32).reshape(5, N)
    y = np.zeros(5, dtype=np.float32)
    kernel[2, N](rows, y)
    np.testing.assert_array_equal(y, rows.max(axis=1))


@right(run=_run_weights)
@cuda.jit
def row_maximum_grid_stride(rows, y):
    """Blocks stride over rows; the tile is used again for each."""
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    for row in range(cuda.blockIdx.x, rows.shape[0], cuda.gridDim.x):
        tile[t] = rows[row, t]
        s = N // 2
        while s > 0:
            cuda.syncthreads()
            if t < s:
                tile[t] = max(tile[t], tile[t + s])
            s //= 2
        if t == 0:
            y[row] = tile[0]
        cuda.syncthreads()


@wrong("race", "tile", "shared", read("first", 0), write("second", 1), run=_run_weights)
@cuda.jit
def row_maximum_without_barrier_between_rows(rows, y):
    """While thread 0 takes the last step of a row, the others load the next one."""
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    for row in range(cuda.blockIdx.x, rows.shape[0], cuda.gridDim.x):
        tile[t] = rows[row, t]  # second
        s = N // 2
        while s > 0:
            cuda.syncthreads()
            if t < s:
                tile[t] = max(tile[t], tile[t + s])  # first
            s //= 2
        if t == 0:
            y[row] = tile[0]  # first


@wrong("race", "tile", "shared", write("first", 0), read("second", 63), run=_run_weights)
@cuda.jit
def row_maximum_with_tile_used_again_too_early(rows, y):
    """Thread 0 folds the row alone; the others already load the next one."""
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    for row in range(cuda.blockIdx.x, rows.shape[0], cuda.gridDim.x):
        tile[t] = rows[row, t]  # first
        cuda.syncthreads()
        if t == N - 1:
            largest = tile[0]  # second
            for k in range(1, N):
                largest = max(largest, tile[k])  # second
            y[row] = largest


PARAMETERS = np.array([1.0, 4.0, 9.0, 16.0], dtype=np.float32)


def _run_constants(kernel):
    x = np.arange(N, dtype=np.int32)
    y = np.zeros(N, dtype=np.float32)
    kernel[1, N](x, y)
    np.testing.assert_array_equal(y, PARAMETERS[x % 4])


@right(run=_run_constants)
@cuda.jit
def constant_table(x, y):
    table = cuda.const.array_like(PARAMETERS)
    t = cuda.threadIdx.x
    y[t] = table[x[t] % 4]


@wrong("out-of-bounds", "table", "constant", read("first", 4), run=_run_constants)
@cuda.jit
def constant_table_without_modulus(x, y):
    table = cuda.const.array_like(PARAMETERS)
    t = cuda.threadIdx.x
    y[t] = table[x[t]]  # first
