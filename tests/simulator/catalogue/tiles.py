"""Tiles in shared memory: transposes, matrix products, stencils."""

import numpy as np
from numba import cuda, float32

from tests.simulator.catalogue.case import read, right, write, wrong

T = 8
PADDED = T + 1  # a column more: no bank conflicts


def _run_transpose(kernel):
    x = np.arange(16 * 24, dtype=np.float32).reshape(16, 24)
    y = np.zeros((24, 16), dtype=np.float32)
    kernel[(3, 2), (T, T)](x, y)
    np.testing.assert_array_equal(y, x.T)


@right(run=_run_transpose)
@cuda.jit
def transpose(x, y):
    tile = cuda.shared.array((T, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    bx, by = cuda.blockIdx.x * T, cuda.blockIdx.y * T
    tile[ty, tx] = x[by + ty, bx + tx]
    cuda.syncthreads()
    y[bx + ty, by + tx] = tile[tx, ty]


@wrong("uninitialised read", "tile", "shared", read("second", (1, 0, 0)), or_kinds=("race",), run=_run_transpose)
@cuda.jit
def transpose_without_barrier(x, y):
    tile = cuda.shared.array((T, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    bx, by = cuda.blockIdx.x * T, cuda.blockIdx.y * T
    tile[ty, tx] = x[by + ty, bx + tx]  # first
    y[bx + ty, by + tx] = tile[tx, ty]  # second


@wrong("out-of-bounds", "x", "global", read("first", 0, (2, 0, 0)), run=_run_transpose)
@cuda.jit
def transpose_with_swapped_index(x, y):
    """Rows and columns of x are swapped: right for square matrices only."""
    tile = cuda.shared.array((T, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    bx, by = cuda.blockIdx.x * T, cuda.blockIdx.y * T
    tile[tx, ty] = x[bx + tx, by + ty]  # first
    cuda.syncthreads()
    y[by + ty, bx + tx] = tile[tx, ty]


def _run_matmul(kernel):
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (16, 24)).astype(np.float32)
    b = rng.integers(-4, 5, (24, 16)).astype(np.float32)
    c = np.zeros((16, 16), dtype=np.float32)
    kernel[(2, 2), (T, T)](a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@right(run=_run_matmul)
@cuda.jit
def matmul(a, b, c):
    sa = cuda.shared.array((T, T), float32)
    sb = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(0, a.shape[1], T):
        sa[ty, tx] = a[row, k + tx]
        sb[ty, tx] = b[k + ty, column]
        cuda.syncthreads()
        for j in range(T):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    c[row, column] = total


@wrong("race", "sa", "shared", write("first", 0), read("second", (1, 0, 0)), run=_run_matmul, any_array=True)
@cuda.jit
def matmul_without_second_barrier(a, b, c):
    """The next tile is loaded while others still read this one."""
    sa = cuda.shared.array((T, T), float32)
    sb = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(0, a.shape[1], T):
        sa[ty, tx] = a[row, k + tx]  # first
        sb[ty, tx] = b[k + ty, column]  # first
        cuda.syncthreads()
        for j in range(T):
            total += sa[ty, j] * sb[j, tx]  # second
    c[row, column] = total


@wrong("uninitialised read", "sa", "shared", read("second", 0), or_kinds=("race",), run=_run_matmul, any_array=True)
@cuda.jit
def matmul_without_first_barrier(a, b, c):
    sa = cuda.shared.array((T, T), float32)
    sb = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(0, a.shape[1], T):
        sa[ty, tx] = a[row, k + tx]  # first
        sb[ty, tx] = b[k + ty, column]  # first
        for j in range(T):
            total += sa[ty, j] * sb[j, tx]  # second
        cuda.syncthreads()
    c[row, column] = total


def _run_ragged_matmul(kernel):
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (10, 13)).astype(np.float32)
    b = rng.integers(-4, 5, (13, 11)).astype(np.float32)
    c = np.zeros((10, 11), dtype=np.float32)
    kernel[(2, 2), (T, T)](a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@right(run=_run_ragged_matmul)
@cuda.jit
def ragged_matmul(a, b, c):
    """Any size: elements outside the matrices are zeros in the tiles."""
    sa = cuda.shared.array((T, T), float32)
    sb = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    rows, inner = a.shape
    columns = b.shape[1]
    total = float32(0)
    for k in range(0, inner, T):
        sa[ty, tx] = a[row, k + tx] if row < rows and k + tx < inner else 0
        sb[ty, tx] = b[k + ty, column] if k + ty < inner and column < columns else 0
        cuda.syncthreads()
        for j in range(T):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    if row < rows and column < columns:
        c[row, column] = total


@wrong("out-of-bounds", "a", "global", read("first", (5, 0, 0)), run=_run_ragged_matmul, any_array=True)
@cuda.jit
def ragged_matmul_without_inner_guard(a, b, c):
    sa = cuda.shared.array((T, T), float32)
    sb = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    rows, inner = a.shape
    columns = b.shape[1]
    total = float32(0)
    for k in range(0, inner, T):
        sa[ty, tx] = a[row, k + tx] if row < rows else 0  # first
        sb[ty, tx] = b[k + ty, column] if column < columns else 0  # first
        cuda.syncthreads()
        for j in range(T):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    if row < rows and column < columns:
        c[row, column] = total


@wrong("uninitialised read", "sb", "shared", read("second", 3, 1), run=_run_ragged_matmul, any_array=True)
@cuda.jit
def ragged_matmul_without_zeros(a, b, c):
    """Outside the matrices the tiles keep what shared memory held before."""
    sa = cuda.shared.array((T, T), float32)
    sb = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    rows, inner = a.shape
    columns = b.shape[1]
    total = float32(0)
    for k in range(0, inner, T):
        if row < rows and k + tx < inner:
            sa[ty, tx] = a[row, k + tx]
        if k + ty < inner and column < columns:
            sb[ty, tx] = b[k + ty, column]
        cuda.syncthreads()
        for j in range(T):
            total += sa[ty, j] * sb[j, tx]  # second
        cuda.syncthreads()
    if row < rows and column < columns:
        c[row, column] = total


N = 64
WITH_HALO = N + 2


def _run_stencil(kernel):
    x = np.arange(2 * N, dtype=np.float32) ** 2
    y = np.zeros_like(x)
    kernel[2, N](x, y)
    want = np.zeros_like(x)
    want[1:-1] = x[:-2] + x[1:-1] + x[2:]
    np.testing.assert_array_equal(y, want)


@right(run=_run_stencil)
@cuda.jit
def stencil(x, y):
    tile = cuda.shared.array(WITH_HALO, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else 0
    if t == N - 1:
        tile[N + 1] = x[i + 1] if i + 1 < x.size else 0
    cuda.syncthreads()
    if 0 < i < x.size - 1:
        y[i] = tile[t] + tile[t + 1] + tile[t + 2]


@wrong("uninitialised read", "tile", "shared", read("second", 63), run=_run_stencil)
@cuda.jit
def stencil_without_right_halo(x, y):
    tile = cuda.shared.array(WITH_HALO, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else 0
    cuda.syncthreads()
    if 0 < i < x.size - 1:
        y[i] = tile[t] + tile[t + 1] + tile[t + 2]  # second


@wrong("out-of-bounds", "tile", "shared", read("first", 63), run=_run_stencil)
@cuda.jit
def stencil_in_a_tile_without_halo(x, y):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i]
    cuda.syncthreads()
    if 0 < i < x.size - 1:
        y[i] = tile[t - 1] + tile[t] + tile[t + 1]  # first


def _run_heat(kernel):
    x = np.zeros(N, dtype=np.float64)
    x[20:30] = 64
    y = x.copy()
    kernel[1, N](y, 4)
    for _ in range(4):
        x[1:-1] = (x[:-2] + 2 * x[1:-1] + x[2:]) / 4
    np.testing.assert_array_equal(y, x)


@right(run=_run_heat)
@cuda.jit
def heat_by_ping_pong(x, steps):
    """Explicit heat equation in place: each step reads one half of a shared buffer and writes the other."""
    u = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    u[0, t] = x[t]
    u[1, t] = x[t]
    cuda.syncthreads()
    for step in range(steps):
        now = step % 2
        if 0 < t < N - 1:
            u[1 - now, t] = (u[now, t - 1] + 2 * u[now, t] + u[now, t + 1]) / 4
        cuda.syncthreads()
    x[t] = u[steps % 2, t]


@wrong("race", "u", "shared", write("first", 1), read("first", 2), run=_run_heat)
@cuda.jit
def heat_in_one_buffer(x, steps):
    u = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    u[t] = x[t]
    cuda.syncthreads()
    for _ in range(steps):
        if 0 < t < N - 1:
            u[t] = (u[t - 1] + 2 * u[t] + u[t + 1]) / 4  # first
        cuda.syncthreads()
    x[t] = u[t]


def _run_heat_over_blocks(kernel):
    x = np.zeros(N, dtype=np.float64)
    x[20:40] = 64
    y = x.copy()
    kernel[2, N // 2](y)
    want = x.copy()
    want[1:-1] = (x[:-2] + 2 * x[1:-1] + x[2:]) / 4
    np.testing.assert_array_equal(y, want)


@wrong("race", "x", "global", write("second", 31, 0), read("first", 0, 1), run=_run_heat_over_blocks)
@cuda.jit
def heat_in_place_over_blocks(x):
    """A barrier holds the threads of a block; the neighbour in the next block does not wait for it."""
    i = cuda.grid(1)
    v = x[i]
    if 0 < i < x.size - 1:
        v = (x[i - 1] + 2 * v + x[i + 1]) / 4  # first
    cuda.syncthreads()
    x[i] = v  # second


def _run_laplacian(kernel):
    x = np.random.default_rng(2).integers(0, 9, (6, 5, 7)).astype(np.float32)
    y = np.zeros_like(x)
    kernel[(2, 2, 2), (4, 4, 4)](x, y)
    want = np.zeros_like(x)
    inside = (slice(1, -1),) * 3
    shifted = [np.roll(x, shift, axis) for axis in range(3) for shift in (-1, 1)]
    want[inside] = np.sum(shifted, axis=0)[inside] - 6 * x[inside]
    np.testing.assert_array_equal(y, want)


@right(run=_run_laplacian)
@cuda.jit
def laplacian(x, y):
    k, j, i = cuda.grid(3)
    nz, ny, nx = x.shape
    if 0 < i < nz - 1 and 0 < j < ny - 1 and 0 < k < nx - 1:
        s = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]
        y[i, j, k] = s - 6 * x[i, j, k]


@wrong("out-of-bounds", "x", "global", read("first", (1, 0, 1), (0, 1, 0)), run=_run_laplacian)
@cuda.jit
def laplacian_with_guard_of_another_axis(x, y):
    """The guard of the second axis compares with the third one's length."""
    k, j, i = cuda.grid(3)
    nz, _, nx = x.shape
    if 0 < i < nz - 1 and 0 < j < nx - 1 and 0 < k < nx - 1:
        s = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k]  # first
        s += x[i, j, k - 1] + x[i, j, k + 1]
        y[i, j, k] = s - 6 * x[i, j, k]
