"""Numba's types of a kernel's values, as far as its source and its arguments' types determine them.

A type is a number's name ("float32"), an :class:`ArrayType`, a tuple of types, or None if unknown. Operators and
functions are typed by calling the device's own with a sample of each type.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from trifold import _simulator
from trifold.simulator import arithmetic
from trifold.simulator.complex_numbers import complex64


@dataclass(frozen=True)
class ArrayType:
    """An array of numbers, including complex ones; ``item`` is None for records and the like."""

    item: str | None
    ndim: int


Type = Any  # str | ArrayType | tuple[Type, ...] | None
Resolve = Callable[[ast.expr], Any]  # an expression of names and attributes -> its object, or something else entirely

_MAKERS: dict[str, Callable[[int], Any]] = {
    "bool": bool,
    "int8": _simulator.int8,
    "int16": _simulator.int16,
    "int32": _simulator.int32,
    "int64": int,
    "uint8": _simulator.uint8,
    "uint16": _simulator.uint16,
    "uint32": _simulator.uint32,
    "uint64": _simulator.uint64,
    "float16": _simulator.float16,
    "float32": _simulator.float32,
    "float64": float,
    "complex64": complex64,
    "complex128": complex,
}
NUMBERS = frozenset(_MAKERS)
_PARTS = {"complex64": "float32", "complex128": "float64"}
_INDEX = "int64"
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _simulator.add,
    ast.Sub: _simulator.sub,
    ast.Mult: _simulator.mul,
    ast.Div: _simulator.truediv,
    ast.FloorDiv: _simulator.floordiv,
    ast.Mod: _simulator.mod,
    ast.Pow: getattr(_simulator, "pow"),  # noqa: B009
    ast.LShift: _simulator.lshift,
    ast.RShift: _simulator.rshift,
    ast.BitAnd: _simulator.bit_and,
    ast.BitOr: _simulator.bit_or,
    ast.BitXor: _simulator.bit_xor,
    ast.USub: _simulator.neg,
    ast.UAdd: _simulator.pos,
    ast.Invert: _simulator.invert,
}


def type_of(value: Any) -> Type:
    """The type of an argument or of an object that a kernel names."""
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int):
        return "int64" if value < 2**63 else "uint64"
    if isinstance(value, float):
        return "float64"
    if type(value) is complex:
        return "complex128"
    if isinstance(value, tuple):
        return tuple(map(type_of, value))
    if _is_number(value):
        return type(value).__name__
    dtype = getattr(value, "dtype", None)
    if not hasattr(value, "shape"):  # one of Numba's record types has a dtype, but is not an array
        return None
    if isinstance(dtype, np.dtype) or type(dtype).__module__ == "torch":
        name = str(dtype).removeprefix("torch.")
        item = "float32" if name == "bfloat16" else name if name in NUMBERS else None
        return item if isinstance(value, np.generic) else ArrayType(item, len(value.shape))
    return None


def _is_number(value: Any) -> bool:
    return type(value).__name__ in NUMBERS and type(value).__module__ == _simulator.float32.__module__


@cache
def unified(first: Type, second: Type) -> Type:
    """The one type of a variable that is assigned both."""
    if first == second:
        return first
    if isinstance(first, str) and isinstance(second, str):
        if first in _PARTS or second in _PARTS:
            parts = unified(_PARTS.get(first, first), _PARTS.get(second, second))
            return "complex64" if parts in ("float16", "float32") else "complex128"
        return _type_of_result(_simulator.unified, (first, second))
    if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
        return tuple(map(unified, first, second))
    return None


def operated(operator: ast.AST, *operands: Type) -> Type:
    """The type of an operator's result."""
    function = _OPERATORS.get(type(operator))
    return None if function is None else _type_of_result(function, operands)


def range_item(arguments: list[Type]) -> Type:
    """The type of ``range``: Numba has one for int32, for int64 and for uint64, and uses the one that changes the
    fewest argument values; the first of several."""
    if not all(kind in _INTEGERS for kind in arguments):
        return None
    return min(("int32", "int64", "uint64"), key=lambda item: _losses(arguments, item))


def _losses(arguments: list[Type], item: str) -> tuple[int, int, int]:
    """How many conversions may change a value, change only the sign's meaning, and only widen."""
    unsafe = safe = promoted = 0
    for kind in arguments:
        signed, bits = _INTEGERS[kind]
        to_signed, to_bits = _INTEGERS[item]
        if kind == item:
            continue
        if kind == "bool" or (signed == to_signed and bits < to_bits):
            promoted += 1
        elif to_signed and not signed and bits < to_bits:
            safe += 1
        else:
            unsafe += 1
    return unsafe, safe, promoted


_INTEGERS = {"bool": (False, 1)} | {f"{u}int{bits}": (not u, bits) for u in ("", "u") for bits in (8, 16, 32, 64)}


@cache
def _type_of_result(function: Callable[..., Any], operands: tuple[Type, ...]) -> Type:
    if any(isinstance(operand, ArrayType | tuple) or operand not in NUMBERS for operand in operands):
        return None
    try:
        return type_of(function(*(_MAKERS[operand](1) for operand in operands)))
    except (TypeError, ValueError):
        return None


class Typing:
    """Types of expressions, given those of the local names."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def called(self, node: ast.Call, arguments: list[Type]) -> Type:
        """The type of a call's result."""
        callee = self._resolve(node.func)
        function = arithmetic.device_function(callee)
        if function is not None:
            if len(arguments) == 1 and isinstance(arguments[0], tuple):
                arguments = list(arguments[0])
            return None if node.keywords else _type_of_result(function, tuple(arguments))
        return self._device_call(node, getattr(callee, "__name__", ""), callee, arguments)

    def _device_call(self, node: ast.Call, name: str, callee: Any, arguments: list[Type]) -> Type:
        known = self._devices().get(name)
        if known is None or known is not callee:
            return None
        if name in ("grid", "gridsize"):
            ndim = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            return _INDEX if ndim == 1 else (_INDEX,) * ndim if isinstance(ndim, int) else None
        return None

    @staticmethod
    @cache
    def _devices() -> Mapping[str, Any]:
        return {name: getattr(_simulator, name) for name in ("grid", "gridsize") if hasattr(_simulator, name)}

    def constructed(self, node: ast.Call) -> Type:
        """The type of ``cuda.shared.array`` and the like; None for other calls."""
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in ("array", "array_like") or not node.args:
            return None
        if node.func.attr == "array_like":
            value = self._resolve(node.args[0])
            return type_of(value) if isinstance(value, np.ndarray) else None
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        dtype = node.args[1] if len(node.args) > 1 else given.get("dtype")
        shape = node.args[0]
        if dtype is None:
            return None
        cast = arithmetic.device_function(self._resolve(dtype))
        item = None if cast is None else _type_of_result(cast, ("int64",))
        length = shape if isinstance(shape, ast.Tuple) else self._resolve(shape)
        if isinstance(length, ast.Tuple):
            return ArrayType(item, len(length.elts))
        return ArrayType(item, len(length) if isinstance(length, tuple) else 1)


def attribute(owner: Type, name: str) -> Type:
    """The type of an attribute of a value of this type."""
    if isinstance(owner, ArrayType):
        return {"shape": (_INDEX,) * owner.ndim, "strides": (_INDEX,) * owner.ndim, "T": owner}.get(
            name, _INDEX if name in ("size", "ndim", "itemsize", "nbytes") else None
        )
    if owner in _PARTS and name in ("real", "imag"):
        return _PARTS[owner]
    return owner if name in ("real", "imag") and owner in NUMBERS else None


def subscripted(owner: Type, index: ast.expr) -> Type:
    """The type of an element or a part."""
    if isinstance(owner, tuple):
        if isinstance(index, ast.Constant) and isinstance(index.value, int) and -len(owner) <= index.value < len(owner):
            return owner[index.value]
        return owner[0] if owner and all(member == owner[0] for member in owner) else None
    if not isinstance(owner, ArrayType):
        return None
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(isinstance(part, ast.Constant) and not isinstance(part.value, int) for part in parts):
        return None  # a field, or an Ellipsis
    left = owner.ndim - sum(not isinstance(part, ast.Slice) for part in parts)
    return owner.item if left == 0 else ArrayType(owner.item, left) if left > 0 else None
