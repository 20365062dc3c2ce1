"""The memory of a launch's arrays: its contents before the launch, and which of it is unwritten."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from trifold import _simulator
from trifold.cpu import runtime
from trifold.simulator import uninitialised
from trifold.simulator.arguments import FILLED, UNINITIALISED, Staging
from trifold.simulator.compiled.fallbacks import FallbackError


class Contents:
    """The contents, before the launch, of the arrays that a kernel writes."""

    def __init__(self, staging: Staging, written: Iterable[int]) -> None:
        self._arrays = [staging.values[number] for number in written]
        self._copies = [array.copy(order="K") for array in self._arrays]

    def back(self) -> None:
        for array, copy in zip(self._arrays, self._copies, strict=True):
            np.copyto(array, copy)


class Fresh:
    """The unwritten elements of a launch's arrays."""

    def __init__(self, staging: Staging, arrays: Collection[int], written: Collection[int]) -> None:
        self._staging, self._arrays, self._written = staging, arrays, written
        self._masks: dict[int, np.ndarray[Any, Any]] = {}
        for number in arrays:
            mask = _unwritten(staging.values[number], staging.flags[number])
            if mask is not None and mask.any():
                if staging.values[number].dtype.names:  # the screen does not distinguish a record's fields
                    raise FallbackError(f"{staging.names[number]} has records that are not written yet")
                if not mask.flags.c_contiguous or not staging.values[number].flags.c_contiguous:
                    raise FallbackError(f"{staging.names[number]} is a part of an array that is not wholly written")
                self._masks[number] = mask

    def given(self) -> tuple[Any, int]:
        """The arrays for the screen."""
        numbers: list[int] = []
        for number in self._arrays:
            array = self._staging.values[number]
            mask = self._masks.get(number)
            if array.flags.c_contiguous:
                low, size = array.__array_interface__["data"][0], array.nbytes
            else:
                low, high = np.lib.array_utils.byte_bounds(array)
                size = high - low
            written = number in self._written
            numbers += [low, size, array.itemsize, written, 0 if mask is None else mask.ctypes.data]
        return (ctypes.c_uint64 * len(numbers))(*numbers), len(self._arrays)

    def noted(self) -> Any:
        return _Noted({number: (self._staging.values[number], mask) for number, mask in self._masks.items()})


def _unwritten(array: np.ndarray[Any, Any], flags: int) -> np.ndarray[Any, Any] | None:
    """The unwritten elements of an array; None: all are written, as far as known."""
    if flags & (UNINITIALISED | FILLED):
        return uninitialised.unwritten(array, whole=bool(flags & UNINITIALISED))
    if not array.flags.c_contiguous:
        return None
    found = _simulator.unwritten(array.__array_interface__["data"][0], array.nbytes)  # of a tensor
    if found is None:
        return None
    return np.asarray(np.frombuffer(found, np.uint8).reshape(*array.shape, array.itemsize).any(axis=-1))


class _Noted:
    """Within it, checked launches know which elements are unwritten; these hold another pattern meanwhile."""

    def __init__(self, masked: dict[int, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]) -> None:
        self._masked = [(array, mask) for array, mask in masked.values()]

    def __enter__(self) -> None:
        self._before = []
        for array, mask in self._masked:
            content = array.copy()
            runtime.note_fresh(array.ctypes.data, array.nbytes, array.itemsize)
            array[~mask] = content[~mask]
            self._before.append((array, mask, content, array.copy()))

    def __exit__(self, *_: object) -> None:
        for array, mask, content, filled in self._before:
            left = mask & (_bits(array) == _bits(filled)).reshape(array.shape)
            array[left] = content[left]
        if self._before:
            runtime.forget_fresh()


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(f"V{array.itemsize}")
