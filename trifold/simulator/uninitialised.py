"""Unwritten device arrays: they are filled with a pattern, and elements that still hold it when passed are unwritten.

The pattern identifies them whatever way the host wrote (copy_to_device, an index, a view, NumPy): an array counts as
never written while it holds nothing else, and an element of a partly written array while it holds the pattern.
"""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, ref

import numpy as np

_NAN = {4: 0x7FCBCBCB, 8: 0x7FFBCBCBCBCBCBCB}  # quiet NaNs with a payload that no operation produces
_BYTE = 0xCB

_filled: dict[int, ReferenceType[np.ndarray[Any, Any]]] = {}  # by id of the array


def fill(array: np.ndarray[Any, Any]) -> None:
    """Fill a fresh contiguous array so that it counts as unwritten."""
    if array.nbytes < 8 or array.dtype.hasobject:  # a shorter pattern may be data
        return
    _cells(array)[...] = _pattern(array)
    key = id(array)
    _filled[key] = ref(array, lambda _: _filled.pop(key, None))


def was_filled(array: np.ndarray[Any, Any]) -> bool:
    """Whether :func:`fill` filled the array, or the array of which it is a view."""
    return _owner(array) is not None


def never_written(array: np.ndarray[Any, Any]) -> bool:
    """Whether :func:`fill` filled the array (or the array of which it is a view), and it holds nothing but the
    pattern."""
    owner = _owner(array)
    return owner is not None and bool((_cells(owner) == _pattern(owner)).all())


def unwritten(array: np.ndarray[Any, Any], *, whole: bool) -> np.ndarray[Any, Any]:
    """The unwritten elements of an array: those that hold the pattern; with ``whole`` all."""
    if whole:
        return np.ones(array.shape, bool)
    holds = _cells(np.ascontiguousarray(array)) == _pattern(array)
    return np.asarray(holds.reshape(*array.shape, -1).all(axis=-1))


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """The array that was filled: this one or its base."""
    for owner in (array, array.base):
        known = _filled.get(id(owner))
        if isinstance(owner, np.ndarray) and known is not None and known() is owner:
            return owner
    return None


def _pattern(array: np.ndarray[Any, Any]) -> int:
    size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    return _NAN[size] if array.dtype.kind in "fc" and size in _NAN else _BYTE


def _cells(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Its memory as unsigned integers as wide as the pattern."""
    flat = array.ravel(order="K").view(np.ndarray)
    size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    return flat.view(f"u{size}" if array.dtype.kind in "fc" and size in _NAN else np.uint8)
