"""The kernels that benchmarks/simulator.py times, each with its launch and a check of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32

TILE = 16
WARP_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Case:
    name: str
    threads: int
    launch: Callable[[], None]
    right: Callable[[], bool]
    in_stock: bool = True  # Numba's own simulator can run it


@cuda.jit
def reduce_128(x: Any, sums: Any) -> None:
    acc = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            acc[t] += acc[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


@cuda.jit
def reduce_1024(x: Any, sums: Any) -> None:
    acc = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    s = 512
    while s > 0:
        if t < s:
            acc[t] += acc[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = acc[0]


@cuda.jit
def reduce_by_shuffle(x: Any, total: Any) -> None:
    v = x[cuda.grid(1)]
    distance = 16
    while distance > 0:
        v += cuda.shfl_down_sync(WARP_MASK, v, distance)
        distance //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(total, 0, v)


@cuda.jit
def reduce_by_shared_memory(x: Any, total: Any) -> None:
    """The reduction of ``reduce_by_shuffle`` without shuffles."""
    acc = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    acc[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            acc[t] += acc[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        cuda.atomic.add(total, 0, acc[0])


@cuda.jit
def transpose(x: Any, y: Any) -> None:
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tile[ty, tx] = x[ty, tx]
    cuda.syncthreads()
    y[ty, tx] = tile[tx, ty]


@cuda.jit
def saxpy(a: Any, x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def matmul(a: Any, b: Any, c: Any) -> None:
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        sa[ty, tx] = a[row, k + tx]
        sb[ty, tx] = b[k + ty, column]
        cuda.syncthreads()
        for j in range(TILE):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def nothing(x: Any, y: Any, z: Any) -> None:
    pass


@cuda.jit
def few_elements(x: Any, y: Any) -> None:
    """Any number of threads over arrays of one size, so that only the launch grows."""
    i = cuda.grid(1)
    if x[i % x.size] < 0:
        y[0] = 1


@cuda.jit
def few_elements_and_a_barrier(x: Any, y: Any) -> None:
    tile = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1) % x.size]
    cuda.syncthreads()
    if tile[255 - t] < 0:
        y[0] = 1


def cases() -> list[Case]:
    """The kernels that are compared with Numba's own simulator."""
    rng = np.random.default_rng(0)

    def ones_to(n: int) -> Any:
        return (np.arange(n) % 8).astype(np.float32)  # sums are exact

    x = ones_to(1024)
    sums, total = np.zeros(8, np.float32), np.zeros(1, np.float32)
    square, flipped = rng.random((32, 32), np.float32), np.zeros((32, 32), np.float32)
    u, v, w = rng.random(65536, np.float32), rng.random(65536, np.float32), np.zeros(65536, np.float32)
    scale = np.float32(2.5)
    a, b = (rng.integers(-4, 5, (32, 32)).astype(np.float32) for _ in range(2))
    c = np.zeros((32, 32), np.float32)
    long = ones_to(4096)
    warp_total, shared_total = np.zeros(1, np.float32), np.zeros(1, np.float32)

    def by_shuffle() -> None:
        warp_total[0] = 0
        reduce_by_shuffle[32, 128](long, warp_total)

    def by_shared_memory() -> None:
        shared_total[0] = 0
        reduce_by_shared_memory[32, 128](long, shared_total)

    return [
        Case(
            "reduce 8×128",
            1024,
            lambda: reduce_128[8, 128](x, sums),
            lambda: bool((sums == x.reshape(8, 128).sum(1)).all()),
        ),
        Case("reduce 1×1024", 1024, lambda: reduce_1024[1, 1024](x, total), lambda: bool(total[0] == x.sum())),
        Case(
            "transpose 32×32", 1024, lambda: transpose[1, (32, 32)](square, flipped), lambda: _same(flipped, square.T)
        ),
        Case(
            "elementwise 65,536",
            65536,
            lambda: saxpy[256, 256](scale, u, v, w),
            lambda: bool(np.allclose(w, scale * u + v, rtol=1e-6)),
        ),
        Case("matmul 32³, tile 16", 1024, lambda: matmul[(2, 2), (TILE, TILE)](a, b, c), lambda: _same(c, a @ b)),
        Case("shuffles, 4,096", 4096, by_shuffle, lambda: bool(warp_total[0] == long.sum()), in_stock=False),
        Case("shared memory, 4,096", 4096, by_shared_memory, lambda: bool(shared_total[0] == long.sum())),
    ]


def large_cases() -> list[Case]:
    """The kernels with which the compiled simulator is compared with the interpreter."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (256, 256)).astype(np.float32) for _ in range(2))
    c = np.zeros((256, 256), np.float32)
    elementwise = next(case for case in cases() if case.name == "elementwise 65,536")
    multiply = Case(
        "matmul 256³, tile 16",
        65536,
        lambda: matmul[(16, 16), (TILE, TILE)](a, b, c),
        lambda: _same(c, a @ b),
        in_stock=False,
    )
    return [elementwise, multiply]


def _same(got: Any, want: Any) -> bool:
    return bool(np.array_equal(got, want))
