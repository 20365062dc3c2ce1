"""CUDA's vector types: ``cuda.float32x3`` is ``float3``."""

from __future__ import annotations

from typing import Any

import numba
from numba import types

_NUMBERS = {
    types.int8: "char", types.int16: "short", types.int32: "int", types.int64: "longlong", types.uint8: "uchar",
    types.uint16: "ushort", types.uint32: "uint", types.uint64: "ulonglong", types.float32: "float",
    types.float64: "double",
}  # fmt: skip


def _types() -> list[Any]:
    """Numba's vector types. In a process with its simulator no kernel is typed, and numba-cuda's cannot be imported."""
    if numba.config.ENABLE_CUDASIM:
        return []
    from numba.cuda.vector_types import vector_types

    return [each for each in vector_types.values() if each.base_type in _NUMBERS]


#: C++ names, by Numba's types.
NAMES: dict[Any, str] = {each: f"{_NUMBERS[each.base_type]}{each.num_elements}" for each in _types()}

#: Functions that make a vector, with their C++ names.
MAKERS: dict[Any, str] = {each.user_facing_object: f"make_{name}" for each, name in NAMES.items()}


def member_type(kind: types.Type, name: str) -> types.Type | None:
    """The type of a vector's x, y, z or w; None: it is not a vector, or lacks that part."""
    if kind not in NAMES or name not in kind.attr_names:
        return None
    base: types.Type = kind.base_type
    return base
