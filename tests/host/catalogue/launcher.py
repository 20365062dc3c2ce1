"""A kernel of catalogue.cu that is launched as Numba's are: ``kernel[grid, block, stream, shared](*arguments)``.

So what launches a prototype, and compares its result with NumPy's, launches its twin in C++ without a change.
"""

from __future__ import annotations

from collections.abc import Callable
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
class HostKernel:
    """One kernel in C++.

    Attributes:
        start: the operator of catalogue.py.
        name: the kernel's, with its namespace; several, with a space between them, are launched one after the other.
        more: what the kernel takes behind the prototype's arguments, mostly extents, made of these.
        results: copies of the array arguments after the last launch.
    """

    start: Start
    name: str
    more: Callable[..., tuple[int, ...]]
    results: list[Array] = field(default_factory=list)

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[..., None]:
        grid, block, *rest = configuration
        shared = rest[1] if len(rest) > 1 else 0
        shape = [*_three(grid), *_three(block), shared]

        def launch(*arguments: Any) -> None:
            values = [_value(argument) for argument in arguments]
            everything = [*values, *self.more(*values)]
            words, reals = zip(*map(_row, everything), strict=True)
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
            self.results = copies([_value(argument) for argument in arguments])

        return launch


def copies(values: list[Any]) -> list[Array]:
    return [value.copy() for value in values if isinstance(value, np.ndarray)]


def _three(extents: Any) -> tuple[int, int, int]:
    given = extents if isinstance(extents, tuple) else (extents,)
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z


def _value(argument: Any) -> Any:
    """An array as NumPy's, on the same memory; anything else as it is."""
    if isinstance(argument, Tensor):
        return argument.numpy()
    return getattr(argument, "_ary", argument)  # of a device array of Numba's simulator


def _row(value: Any) -> tuple[tuple[int, int, int, int], float]:
    """What ``start`` takes for one argument."""
    if not isinstance(value, np.ndarray):
        return (int(value), 0, 0, 0), float(value)
    first, end = np.lib.array_utils.byte_bounds(value)
    return (value.ctypes.data, first, end - first, int(never_written(value))), 0.0
