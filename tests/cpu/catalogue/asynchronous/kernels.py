"""The right kernels of this folder: their text, their launches, and the expected results."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.cpu.catalogue.launcher import Array

FOLDER = Path(__file__).parent
INSTRUCTIONS = FOLDER / "instructions.cuh"
THREADS, TILE = 64, 256

_KERNEL = re.compile(r"^__global__ void (?:__cluster_dims__\(\d+\) )?(\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL)


def _texts() -> dict[str, str]:
    found = {}
    for source in sorted(FOLDER.glob("*.cuh")):
        for kernel in _KERNEL.finditer(source.read_text(encoding="utf-8")):
            assert kernel[1] not in found, kernel[1]
            found[kernel[1]] = kernel[0]
    return found


#: By the kernel's name.
TEXTS = _texts()


@dataclass(frozen=True)
class Kernel:
    """A right kernel.

    Attributes:
        elements: of x, and of y, for one block.
        result: the expected y.
        unit: the blocks that belong together; a launch may have any number of units.
        units: the number of units in a launch with checks.
        more: makes further arguments after x and y.
        fixed: a launch cannot have another number of blocks.
    """

    name: str
    elements: float
    result: Callable[[Array], Array]
    unit: int = 1
    units: int = 4
    threads: int = THREADS
    more: Callable[[], tuple[Any, ...]] = tuple
    fixed: bool = False

    def __str__(self) -> str:
        return self.name

    def run(self, kernel: Any, times: int = 1) -> None:
        """Launch it on ``times`` as many blocks, and compare the result with the expected one."""
        blocks = self.unit * self.units * (1 if self.fixed else times)
        x = (np.arange(int(blocks * self.elements)) % 61 + 1).astype(np.float32)
        y = np.zeros_like(x)
        kernel[blocks, self.threads](x, y, *self.more())
        np.testing.assert_array_equal(y, self.result(x))


@dataclass(frozen=True)
class Counting(Kernel):
    """``counts``, which itself counts how often each of its checks failed."""

    def run(self, kernel: Any, times: int = 1) -> None:
        failures = np.zeros(16, np.uint32)
        kernel[self.unit * self.units * times, self.threads](failures)
        np.testing.assert_array_equal(failures, 0)


def _twice(x: Array) -> Array:
    made: Array = 2 * x
    return made


def _other_half(x: Array) -> Array:
    made: Array = x.reshape(-1, 2, 32)[:, ::-1].ravel()
    return made


def _rows_backwards(x: Array) -> Array:
    made: Array = x.reshape(-1, 32)[:, ::-1].ravel()
    return made


def _neighbours_exchanged(x: Array) -> Array:
    made: Array = x.reshape(-1, 2)[:, ::-1].ravel()
    return made


def _of_block(distance: int, size: int = THREADS, times: int = 1) -> Callable[[Array], Array]:
    """x of the block at this distance before, within clusters of four."""

    def result(x: Array) -> Array:
        made: Array = times * np.roll(x.reshape(-1, 4, size), distance, axis=1).ravel()
        return made

    return result


def _but_the_last_of_four(x: Array) -> Array:
    made = _of_block(1, TILE, 2)(x).reshape(-1, 4, TILE)
    made[:, 3] = 0
    return made.ravel()


ROWS = 10

KERNELS = {
    kernel.name: kernel
    for kernel in (
        # proxies.cuh
        Kernel("store", TILE, _twice),
        Kernel("last_store", TILE, _twice),
        Kernel("rounds_then_store", TILE, _twice, more=lambda: (0,)),
        Kernel(
            "flag",
            TILE / 2,
            _twice,
            unit=2,
            units=1,
            more=lambda: (np.zeros(TILE, np.float32), np.zeros(1, np.uint32)),
            fixed=True,
        ),
        Kernel("copied", TILE, _twice),
        Kernel("without_fences", TILE, _twice),
        # groups.cuh
        Kernel("groups", TILE, _twice),
        Kernel("ring_of_stores", TILE, _twice),
        Kernel("pipeline_functions", TILE, _twice),
        Kernel("group_copies", TILE, _twice),
        # bulk_loads.cuh
        Kernel("load", TILE, _twice),
        Kernel("padded_load", TILE, _twice),
        Kernel("two_operands", TILE, _twice),
        Kernel("pipeline", TILE, _twice),
        Kernel("late_arrival", TILE, _twice),
        # cluster_copies.cuh
        Kernel("multicast", TILE / 2, _twice, unit=2, units=2),
        Kernel("gather", TILE / 2, _twice, unit=2, units=2),
        Kernel("lead", TILE / 2, _twice, unit=2, units=2),
        Kernel("messages", TILE, _of_block(1, TILE, 2), unit=4, units=2),
        Kernel("unread_messages", TILE, _but_the_last_of_four, unit=4, units=2),
        Kernel("ptx_functions", TILE / 2, _twice, unit=2, units=2),
        # mbarriers.cuh
        Kernel("ring", 32 * ROWS, _rows_backwards, more=lambda: (ROWS,)),
        Kernel("ring_of_ptx", 32 * ROWS, _rows_backwards, more=lambda: (ROWS,)),
        Kernel("phases", THREADS, np.copy, units=1, more=lambda: (5,)),
        Kernel("twice", THREADS, _other_half),
        Kernel("neighbours", THREADS, _of_block(1), unit=4, units=1),
        Kernel("neighbours_by_pointers", THREADS, _of_block(1), unit=4, units=1),
        Kernel("relaxed", THREADS, _other_half),
        Kernel("classes", THREADS, _other_half),
        Counting("counts", 0, np.copy, units=1),
        # clusters.cuh
        Kernel("shift", THREADS, _of_block(-1), unit=4, units=2),
        # named_barriers.cuh
        Kernel("make_and_take", 128, _neighbours_exchanged, units=1, fixed=True),
        Kernel("pairs_of_warps", 128, _other_half, units=1, threads=128, fixed=True),
    )
}
