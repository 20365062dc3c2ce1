"""The device functions for host objects in a kernel: ``math.sqrt``, ``np.float32``, ``abs``, ``sinf``.

The functions themselves are C++ (``_simulator``); this maps host objects to them, by identity.
"""

from __future__ import annotations

import builtins
import cmath
import importlib
import math
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from trifold import _simulator
from trifold.simulator.complex_numbers import CMATH, complex64, complex128, complex_of

# A number type's name in NumPy and in Numba, and its constructor.
CASTS: dict[str, Any] = {
    "bool": _simulator.boolean,
    "int8": _simulator.int8,
    "int16": _simulator.int16,
    "int32": _simulator.int32,
    "int64": _simulator.int64,
    "uint8": _simulator.uint8,
    "uint16": _simulator.uint16,
    "uint32": _simulator.uint32,
    "uint64": _simulator.uint64,
    "float16": _simulator.float16,
    "float32": _simulator.float32,
    "float64": _simulator.float64,
    "complex64": complex64,
    "complex128": complex128,
}
_BUILTINS: dict[str, Any] = {
    name: getattr(_simulator, name) for name in ("abs", "divmod", "float", "int", "max", "min", "pow", "round")
} | {"bool": _simulator.boolean, "complex": complex_of}
_OPERATORS: dict[str, Any] = {
    "abs": _BUILTINS["abs"],
    "add": _simulator.add,
    "and_": _simulator.bit_and,
    "floordiv": _simulator.floordiv,
    "invert": _simulator.invert,
    "lshift": _simulator.lshift,
    "mod": _simulator.mod,
    "mul": _simulator.mul,
    "neg": _simulator.neg,
    "or_": _simulator.bit_or,
    "pos": _simulator.pos,
    "pow": _BUILTINS["pow"],
    "rshift": _simulator.rshift,
    "sub": _simulator.sub,
    "truediv": _simulator.truediv,
    "xor": _simulator.bit_xor,
}
_PLAIN_INTEGER = 2**31  # a smaller Python int already represents an int64


def device_function(value: Any) -> Any | None:
    """The device form of this host object; None if it means the same on the device."""
    known = _functions.get(id(value))
    if known is not None:
        return known[1]
    return _numba_cast(value)


@cache
def cast_to(kind: Any) -> Callable[[Any], Any] | None:
    """The conversion to a type given by name, or to a tuple of such; None for other types."""
    if isinstance(kind, tuple):
        members = [cast_to(member) for member in kind]
        return None if None in members else _TupleCast(tuple(members))
    return CASTS.get(kind)


@dataclass(frozen=True)
class _TupleCast:
    """Converts each part of a tuple."""

    members: tuple[Any, ...]

    def __call__(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(cast(part) for cast, part in zip(self.members, value, strict=True))


def unsigned_items(items: range) -> Iterator[Any]:
    """A ``range`` of unsigned integers: its values are uint64s."""
    return map(CASTS["uint64"], items)


def literal(value: Any) -> Any | None:
    """The value of a constant or an argument as a number of Numba's type; None if it already is one, or is not a
    number."""
    if isinstance(value, np.generic):
        cast = CASTS.get(value.dtype.name)
        return None if cast is None else cast(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -_PLAIN_INTEGER <= value < _PLAIN_INTEGER:
        return _simulator.int64(value) if value < 2**63 else _simulator.uint64(value)
    return None


def device_names() -> dict[str, Any]:
    """Objects that ``numba.cuda`` gets: integer intrinsics, ``fp16`` and ``libdevice``, by name."""
    return {**_of_module("cuda"), "fp16": _fp16, "libdevice": _libdevice}


def _of_module(module: str) -> dict[str, Any]:
    prefix = module + "."
    return {
        name.removeprefix(prefix): function
        for name, function in _simulator.functions.items()
        if name.startswith(prefix)
    }


def _numba_cast(value: Any) -> Any | None:
    """A cast for one of Numba's number types, of Numba's own or of numba-cuda's: they are equal by name."""
    if not type(value).__module__.startswith("numba."):
        return None
    return CASTS.get(str(value)) if type(value).__name__ in ("Integer", "Float", "Complex", "Boolean") else None


def _pairs() -> Iterator[tuple[Any, Any]]:
    for module, functions in (
        (builtins, _BUILTINS),
        (operator, _OPERATORS),
        (math, _of_module("math")),
        (cmath, CMATH),
    ):
        for name, function in functions.items():
            if hasattr(module, name):  # math.exp2 is Python 3.11's
                yield getattr(module, name), function
    for name, function in _of_module("numpy").items():
        yield getattr(np, name), function
    for scalar in vars(np).values():
        if isinstance(scalar, type) and issubclass(scalar, np.generic) and scalar not in _ABSTRACT:
            cast = CASTS.get(np.dtype(scalar).name)
            if cast is not None:
                yield scalar, cast
    for name, function in {**_of_module("libdevice")}.items():
        yield getattr(importlib.import_module("numba.cuda.libdevice"), name), function
    stubs = sys.modules.get("numba.cuda.stubs")
    for name, function in _of_module("cuda").items():
        if hasattr(stubs, name):
            yield getattr(stubs, name), function


_ABSTRACT = {np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating}
_ABSTRACT |= {np.complexfloating, np.flexible, np.character}
_fp16 = SimpleNamespace(**_of_module("fp16"))
_libdevice = SimpleNamespace(**_of_module("libdevice"))
# By identity: NumPy's types compare equal to many objects. Keeping the host object keeps its id from being reused.
_functions: dict[int, tuple[Any, Any]] = {id(host): (host, device) for host, device in _pairs()}
