"""Records the launches of a case of the catalogue for replay.cu, without running them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.cpu.catalogue.launcher import Array, three, value_of
from trifold.simulator.uninitialised import never_written


@dataclass
class Tape:
    """Replaces a kernel, like CpuKernel, and records its launches.

    Attributes:
        name: the kernel's, with its namespace; several, separated by spaces, are launched one after the other.
        more: computes further arguments after the prototype's, from these.
        lines: of the tape.
    """

    name: str
    more: Callable[..., tuple[int, ...]]
    lines: list[str] = field(default_factory=list)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)  # of memories, by their first byte and end
    _content: dict[int, bytes] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)  # keeps arrays alive, so that addresses are unique

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[..., None]:
        grid, block, *rest = configuration
        shape = [*three(grid), *three(block), rest[1] if len(rest) > 1 else 0]

        def launch(*arguments: Any) -> None:
            self._kept.append(arguments)
            values = [value_of(argument) for argument in arguments]
            everything = [*values, *self.more(*values)]
            memories = self._memories([value for value in everything if isinstance(value, np.ndarray)])
            texts = [_argument(value, memories) for value in everything]
            numbers = " ".join(map(str, [*shape, len(texts)]))
            self.lines.append(f"launch {self.name.replace(' ', ',')} {numbers} {' '.join(texts)}")

        return launch

    def _memories(self, arrays: list[Array]) -> dict[int, tuple[int, int]]:
        """By each array's first byte, its memory and its offset there; arrays that overlap share a memory."""
        ranges: list[list[int]] = []
        for first, end in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays if array.size):
            if ranges and first < ranges[-1][1]:
                ranges[-1][1] = max(ranges[-1][1], end)
            else:
                ranges.append([first, end])
        found = {}
        for first, end in ranges:
            inside = [array for array in arrays if array.size and first <= array.ctypes.data < end]
            number = self._numbers.setdefault((first, end), len(self._numbers))
            self._note(number, first, end - first, not all(map(never_written, inside)))
            found.update({array.ctypes.data: (number, array.ctypes.data - first) for array in inside})
        return found

    def _note(self, number: int, first: int, size: int, written: bool) -> None:
        """An allocation, with its contents if it is new; otherwise what kernels have written remains."""
        content = ctypes.string_at(first, size)
        if self._content.get(number) == content:
            return
        self._content[number] = content
        shown = " ".join(map(str, content)) if written else ""
        self.lines.append(f"memory {number} {size} {int(written)} {shown}")


def _argument(value: Any, memories: dict[int, tuple[int, int]]) -> str:
    if not isinstance(value, np.ndarray):
        return f"-1 {int(value)} {float(value)!r}"
    number, offset = memories.get(value.ctypes.data, (-1, 0))
    return f"{number} {offset} 0"
