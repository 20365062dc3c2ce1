"""The simulator's vocabulary of device objects, and the names that it adds to ``numba.cuda``."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from trifold import _simulator
from trifold.errors import LaunchError
from trifold.simulator import arithmetic
from trifold.simulator.rewriter import Operation, Runtime

_FULL_WARP = 0xFFFFFFFF
_GIVEN = ...

# Device functions that wait, with Numba's names of their parameters.
_OPERATIONS = {
    "syncthreads": ("", ()),
    "syncthreads_count": ("OP_SYNCTHREADS_COUNT", (("predicate", _GIVEN),)),
    "syncthreads_and": ("OP_SYNCTHREADS_AND", (("predicate", _GIVEN),)),
    "syncthreads_or": ("OP_SYNCTHREADS_OR", (("predicate", _GIVEN),)),
    "syncwarp": ("OP_SYNCWARP", (("mask", _FULL_WARP),)),
    "shfl_sync": ("OP_SHFL", (("mask", _GIVEN), ("value", _GIVEN), ("src_lane", _GIVEN))),
    "shfl_up_sync": ("OP_SHFL_UP", (("mask", _GIVEN), ("value", _GIVEN), ("delta", _GIVEN))),
    "shfl_down_sync": ("OP_SHFL_DOWN", (("mask", _GIVEN), ("value", _GIVEN), ("delta", _GIVEN))),
    "shfl_xor_sync": ("OP_SHFL_XOR", (("mask", _GIVEN), ("value", _GIVEN), ("lane_mask", _GIVEN))),
    "shfl_sync_intrinsic": (
        "OP_SHFL_INTRINSIC",
        (("mask", _GIVEN), ("mode", _GIVEN), ("value", _GIVEN), ("mode_offset", _GIVEN), ("clamp", _GIVEN)),
    ),
    "all_sync": ("OP_ALL", (("mask", _GIVEN), ("predicate", _GIVEN))),
    "any_sync": ("OP_ANY", (("mask", _GIVEN), ("predicate", _GIVEN))),
    "eq_sync": ("OP_EQ", (("mask", _GIVEN), ("predicate", _GIVEN))),
    "ballot_sync": ("OP_BALLOT", (("mask", _GIVEN), ("predicate", _GIVEN))),
    "vote_sync_intrinsic": ("OP_VOTE_INTRINSIC", (("mask", _GIVEN), ("mode", _GIVEN), ("predicate", _GIVEN))),
    "match_any_sync": ("OP_MATCH_ANY", (("mask", _GIVEN), ("value", _GIVEN))),
    "match_all_sync": ("OP_MATCH_ALL", (("mask", _GIVEN), ("value", _GIVEN))),
    "activemask": ("OP_ACTIVEMASK", ()),
}
_INDICES = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_QUESTIONS = ("laneid", "warpsize", "grid", "gridsize", "lanemask_lt")
_MEMORY = ("threadfence", "threadfence_block", "threadfence_system", "nanosleep")
_NAMESPACES = ("shared", "local", "const", "atomic")
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.Invert: "invert",
}


OPERATION_NAMES = tuple(_OPERATIONS)


class GridGroup:
    """The result of ``cuda.cg.this_grid()``: all threads of a cooperative launch."""

    def sync(self) -> int:
        """Waits for all threads of the grid."""
        _simulator.grid_sync()
        return 0


def this_grid() -> GridGroup:
    """The group of all threads of the launch."""
    return GridGroup()


def _cooperative_groups() -> ModuleType:
    module = ModuleType("numba.cuda.cg", "Cooperative groups.")
    module.this_grid = this_grid  # type: ignore[attr-defined]
    module.GridGroup = GridGroup  # type: ignore[attr-defined]
    return module


cg = _cooperative_groups()


def device_names() -> dict[str, Any]:
    """The names that ``numba.cuda`` lacks in simulator mode, with their objects."""
    own = (*_OPERATIONS, *_INDICES, *_QUESTIONS, *_MEMORY, *_NAMESPACES)
    return {name: getattr(_simulator, name) for name in own} | {"cg": cg} | arithmetic.device_names()


class DeviceVocabulary:
    """The simulator's :class:`trifold.simulator.rewriter.Vocabulary`."""

    def __init__(self, kernel_class: type) -> None:
        self._kernel_class = kernel_class
        self._operations = {
            id(getattr(_simulator, name)): Operation(name, getattr(_simulator, code) if code else None, parameters)
            for name, (code, parameters) in _OPERATIONS.items()
        }
        names = device_names()
        self._objects = {id(value): value for value in names.values()}
        self._namespaces = {id(names[name]) for name in (*_NAMESPACES, "fp16", "libdevice")}
        self.grid_sync = Operation("grid.sync", _simulator.OP_GRID_SYNC)

    def operation(self, value: Any) -> Operation | None:
        return self._operations.get(id(value))

    def is_namespace(self, value: Any) -> bool:
        return id(value) in self._namespaces

    def is_atomic(self, value: Any) -> bool:
        name = getattr(value, "__name__", None)
        return isinstance(name, str) and getattr(_simulator.atomic, name, None) is value

    def is_question(self, value: Any) -> bool:
        return value is _simulator.laneid

    def is_device_array(self, value: Any) -> bool:
        return hasattr(type(value), "__cuda_ndarray__")

    def device_function(self, value: Any) -> FunctionType | None:
        if isinstance(value, self._kernel_class):
            refuse_configured(value)
            return _plain(value.fn)  # type: ignore[attr-defined]
        if isinstance(value, FunctionType):
            return value if _is_users(value) else None
        if type(value).__module__.startswith("numba.") and hasattr(value, "py_func"):  # @njit: CUDA compiles it too
            return _plain(value.py_func)
        return None

    def called(self, value: Any) -> Any | None:
        return arithmetic.device_function(value) or self._objects.get(id(value)) or self._member(value)

    def value(self, value: Any) -> Any | None:
        if isinstance(value, np.generic | int) and not isinstance(value, bool):
            return arithmetic.literal(value)
        return self._objects.get(id(value)) or self._member(value)

    def literal(self, value: int) -> Any | None:
        return arithmetic.literal(value)

    def _member(self, value: Any) -> Any | None:
        """A function of a namespace: ``cuda.atomic.add``."""
        return value if self.is_atomic(value) else None


def refuse_configured(kernel: Any) -> None:
    """A kernel called by a kernel is a device function, unless it is launched.

    Raises:
        LaunchError: it is launched.
    """
    if kernel.__dict__.get("configured"):
        raise LaunchError(
            f"{kernel.__name__} is launched by a running kernel; Numba has no dynamic parallelism",
            "launch it from the host, or call it without [...] as a device function",
        )


def _plain(function: Any) -> FunctionType | None:
    return function if isinstance(function, FunctionType) else None


def _is_users(function: FunctionType) -> bool:
    """Whether a plain function is the user's own, and so a device function."""
    package = (function.__module__ or "").partition(".")[0]
    return package not in ("numba", "numba_cuda", "numpy", "torch") and package not in sys.stdlib_module_names


class DivisionByZero(ZeroDivisionError, FloatingPointError):
    """In a kernel with ``@cuda.jit(debug=True)``: Numba raises the first on a GPU, the second in its simulator."""


def _checked(divide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(a: Any, b: Any) -> Any:
        if b == 0:
            raise DivisionByZero("division by zero")
        return divide(a, b)

    return checked


@cache
def _arithmetic(debug: bool) -> Mapping[type[ast.AST], Any]:
    functions = {operator: getattr(_simulator, name) for operator, name in _OPERATORS.items()}
    if debug:
        for operator in (ast.Div, ast.FloorDiv, ast.Mod):
            functions[operator] = _checked(functions[operator])
    return functions


class _Conversions(dict[Any, Any]):
    """The conversion to a type of numbers; looked up by each thread of a kernel that has ``C = x.dtype.type``."""

    def __missing__(self, kind: Any) -> Any:
        conversion = arithmetic.device_function(kind) or kind
        if isinstance(kind, type):
            self[kind] = conversion
        return conversion


_conversions = _Conversions()


def runtime(site: Callable[[int], int], dynamic: Any, awaited: Any, debug: bool) -> Runtime:
    """The functions that rewritten code calls, for one function."""
    indices = tuple(getattr(_simulator, name) for name in _INDICES)
    return Runtime(_arithmetic(debug), indices, dynamic, awaited, _conversions, site, _simulator.OP_POLL)
