"""The kernels of collectives.cuh: their launches, and the expected findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cpu.catalogue.launcher import Array, CpuKernel
from tests.cpu.catalogue.native import Found, Native
from tests.simulator.catalogue.case import read, waits, write


def _native(name: str, run: Callable[[CpuKernel], object], found: Found | None = None) -> Native:
    return Native((name,), run, found, file="collectives")


def _run(size: int, threads: int, expected: Callable[[Array], Any]) -> Callable[[CpuKernel], None]:
    """Launches one block on x = 0, 1, 2, … with a result of zeros, which then must be expected(x)."""

    def run(kernel: CpuKernel) -> None:
        x = np.arange(size, dtype=np.float32)
        y = np.zeros(size, dtype=np.float32)
        kernel[1, threads](x, y, size)
        np.testing.assert_array_equal(y, expected(x))

    return run


def _words(rows: Array) -> Array:
    """The sum over four matrices of the lower half of each lane's word, where all of row r is rows[r]."""
    made: Array = rows.reshape(4, 8).sum(axis=0).repeat(4)
    return made


def _neighbours(x: Array) -> Array:
    made: Array = x.reshape(-1, 2)[:, ::-1].ravel()
    return made


COLLECTIVES = (
    _native("rows_of_other_lanes", _run(32, 32, lambda x: _words(_neighbours(x)))),
    _native(
        "rows_of_other_lanes_without_barrier",
        _run(32, 32, lambda x: _words(_neighbours(x))),
        Found("race", "shared", "tile", (1,), (write("first", 1), read("second", 0)), (1, 1)),
    ),
    _native("rows_at_a_pitch_of_24", _run(32, 32, _words)),
    _native(
        "rows_at_a_pitch_of_12",
        _run(32, 32, _words),
        Found("misaligned", "shared", "tile", (1,), (read("second", 1),), (1,)),
    ),
    _native("products_of_a_warp", _run(20, 32, lambda x: x + 8)),
    _native(
        "products_of_lanes_with_work",
        _run(20, 32, lambda x: x + 8),
        Found("warp divergence", "", "", (), (waits("mma.sync", "first", 0),), (0,)),
    ),
)
