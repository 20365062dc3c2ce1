"""A kernel of catalogue.cu that is launched like Numba's: ``kernel[grid, block, stream, shared](*arguments)``.

So code that launches a prototype, and compares its result with NumPy's, can launch its twin in C++ unchanged.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trifold.simulator.uninitialised import never_written

Start = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Array = NDArray[Any]


@dataclass
class CpuKernel:
    """One kernel in C++.

    Attributes:
        start: the operator of catalogue.py.
        name: the kernel's, with its namespace; several, separated by spaces, are launched one after the other.
        more: computes further arguments after the prototype's, mostly extents, from these.
        results: copies of the array arguments after the last launch.
    """

    start: Start
    name: str
    more: Callable[..., tuple[int, ...]]
    results: list[Array] = field(default_factory=list)

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[..., None]:
        grid, block, *rest = configuration
        shared = rest[1] if len(rest) > 1 else 0
        shape = [*three(grid), *three(block), shared]

        def launch(*arguments: Any) -> None:
            values = [value_of(argument) for argument in arguments]
            with _on_device([value for value in values if isinstance(value, np.ndarray)]) as moved:
                rows = [_row(value, moved) for value in (*values, *self.more(*values))]
                words, reals = zip(*rows, strict=True)
                name = torch.frombuffer(bytearray(self.name.encode()), dtype=torch.uint8)
                self.start(name, torch.tensor(shape), torch.tensor(words), torch.tensor(reals, dtype=torch.float64))
            self.results = copies(values)

        return launch


@dataclass
class Recorded:
    """A prototype's kernel that keeps, after each launch, copies of its array arguments in ``results``."""

    kernel: Any
    results: list[Array] = field(default_factory=list)

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[..., None]:
        def launch(*arguments: Any) -> None:
            self.kernel[configuration](*arguments)
            self.results = copies([value_of(argument) for argument in arguments])

        return launch


def copies(values: list[Any]) -> list[Array]:
    return [value.copy() for value in values if isinstance(value, np.ndarray)]


def three(extents: Any) -> tuple[int, int, int]:
    given = extents if isinstance(extents, tuple) else (extents,)
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z


def value_of(argument: Any) -> Any:
    """An array as a NumPy array on the same memory; anything else unchanged."""
    if isinstance(argument, Tensor):
        return argument.numpy()
    return getattr(argument, "_ary", argument)  # of a device array of Numba's simulator


# The gap between two arrays, and the alignment of each: like cudaMalloc's, and large, so that an index that is too
# large does not reach the next one.
GAP, ALIGNMENT = 1 << 16, 256


@contextmanager
def _on_device(arrays: list[Array]) -> Iterator[Callable[[int], int]]:
    """Yields a function from the address of a byte to that of its copy, in memory far from all other arrays; afterwards
    all are copied back."""
    ranges: list[list[int]] = []
    for first, end in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays):
        if ranges and first < ranges[-1][1]:
            ranges[-1][1] = max(ranges[-1][1], end)
        else:
            ranges.append([first, end])
    room = np.zeros(sum(end - first + 2 * GAP for first, end in ranges) + GAP, dtype=np.uint8)
    copies_at: list[tuple[int, int, int]] = []
    free = room.ctypes.data
    for first, end in ranges:
        place = (free + GAP) // ALIGNMENT * ALIGNMENT
        copies_at.append((first, end, place))
        free = place + end - first + GAP
        ctypes.memmove(place, first, end - first)

    def moved(address: int) -> int:
        return next(place + address - first for first, end, place in copies_at if first <= address < end)

    try:
        yield moved
    finally:
        for first, end, place in copies_at:
            ctypes.memmove(first, place, end - first)


def _row(value: Any, moved: Callable[[int], int]) -> tuple[tuple[int, int, int, int], float]:
    """Return the form of one argument that ``start`` accepts."""
    if not isinstance(value, np.ndarray):
        return (int(value), 0, 0, 0), float(value)
    first, end = np.lib.array_utils.byte_bounds(value)
    return (moved(value.ctypes.data), moved(first), end - first, value.itemsize * never_written(value)), 0.0
