"""Findings in compiled kernels, in the prototype's terms: an array's element by all of its indices."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trifold.findings import Access, Finding
from trifold.simulator.compiled.request import path_of

_OPERATIONS = {"r": "read", "w": "write", "u": "write", "a": "atomic"}
_SPACES = {"g": "global", "s": "shared", "l": "local", "c": "constant", "p": "global"}


@dataclass(frozen=True)
class Outside:
    """An access out of bounds, as trifold/cpu/simulated_kernel.h describes it."""

    space: str
    operation: str
    array: str
    access: Access
    indices: tuple[int, ...]
    lengths: tuple[int, ...]

    @classmethod
    def parse(cls, text: str, kernel: str) -> Outside:
        space, access, array, file, line, function, *numbers = text.split("\t")
        x, y, z, block_x, block_y, block_z, interval, *along = map(int, numbers)
        operation = _OPERATIONS.get(access, "read")
        passed = None if interval < 0 else interval
        at = Access((x, y, z), (block_x, block_y, block_z), passed, operation, file, int(line), function or kernel)
        return cls(_SPACES[space], operation, array, at, tuple(along[::2]), tuple(along[1::2]))

    def finding(self, kernel: str, seed: int) -> Finding:
        """The message, worded as in engine/core/finding.cpp."""
        pairs = enumerate(zip(self.indices, self.lengths, strict=True))
        axis, index, length = next((axis, i, n) for axis, (i, n) in pairs if not 0 <= i < n)
        shape = f"({', '.join(map(str, self.lengths))}{',' if len(self.lengths) == 1 else ''})"
        array = f" array element {self.array}[{', '.join(map(str, self.indices))}]"
        message = (
            f"out-of-bounds {self.operation} of {self.space}{array} in kernel {kernel}: index {index} is out of bounds "
            f"for axis {axis} with size {length} (shape {shape}), by {_who(self.access)} at {_where(self.access)}. "
            "The access did not happen. Guard it with a comparison of the index and the size."
        )
        return Finding(
            "out-of-bounds", "error", kernel, self.space, self.array, self.indices, message, (self.access,), seed
        )


def _who(access: Access) -> str:
    return f"thread {access.thread} of block {access.block}"


def _where(access: Access) -> str:
    source = linecache.getline(access.file, access.line).strip()
    return f"{Path(access.file).name}:{access.line} in {access.function}" + (f" ({source})" if source else "")


def with_functions(finding: Finding, functions: Sequence[tuple[str, int, int]]) -> Finding:
    """The finding, with the functions of its accesses, which waiting threads do not report, and with Python's file
    names.

    Args:
        functions: file, first and last line of each.
    """
    accesses, message = [], finding.message
    names = {path_of(file): file for file, _, _ in functions}
    for access in finding.accesses:
        access = replace(access, file=names.get(access.file, access.file))
        if not access.function and (name := _function_at(access, functions)):
            place = f"{Path(access.file).name}:{access.line}"
            message = message.replace(f"{place} (", f"{place} in {name} (")
            access = replace(access, function=name)
        accesses.append(access)
    return replace(finding, accesses=tuple(accesses), message=message)


def _function_at(access: Access, functions: Sequence[tuple[str, int, int]]) -> str:
    for file, first, last in functions:
        if file == access.file and first <= access.line <= last:
            text = "".join(linecache.getline(file, line) for line in range(first, last + 1))
            named = re.search(r"^\s*def\s+(\w+)", text, re.MULTILINE)
            return named[1] if named else ""
    return ""


def with_all_indices(
    finding: Finding, arrays: Mapping[str, np.ndarray[Any, Any]], shapes: Mapping[str, Sequence[int]]
) -> Finding:
    """The finding, with all indices of an element of a multidimensional array."""
    if len(finding.index) != 1:
        return finding
    (flat,) = finding.index
    indices: tuple[int, ...] | None = None
    if finding.memory == "global" and finding.array in arrays:
        indices = _indices_in(arrays[finding.array], flat)
    elif finding.array in shapes and 0 <= flat < np.prod(shapes[finding.array]):
        indices = tuple(int(i) for i in np.unravel_index(flat, tuple(shapes[finding.array])))
    if indices is None or indices == finding.index:
        return finding
    message = finding.message.replace(f"{finding.array}[{flat}]", f"{finding.array}[{', '.join(map(str, indices))}]", 1)
    return replace(finding, index=indices, message=message)


def _indices_in(array: np.ndarray[Any, Any], flat: int) -> tuple[int, ...] | None:
    """The indices of the element at this offset from the array's lowest address; None if there is none."""
    low, _ = np.lib.array_utils.byte_bounds(array)
    rest = low + flat * array.itemsize - array.ctypes.data
    indices = [0] * array.ndim
    for axis in sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])):
        stride = array.strides[axis]
        if array.shape[axis] > 1 and stride:
            indices[axis] = rest // stride if stride > 0 else -(-rest // stride)
            rest -= indices[axis] * stride
    inside = all(0 <= index < length for index, length in zip(indices, array.shape, strict=True))
    return tuple(indices) if rest == 0 and inside else None
