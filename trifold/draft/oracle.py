"""Queries Numba's CUDA typing context: the result type of a call, and the types that its arguments are converted to.

The context differs from the CPU's: the type of ``math.floor(float32)`` is float32 on CUDA, and int64 on the CPU. No GPU
is needed. Numba's simulator, which hides the context, must not be switched on when Numba is imported.
"""

from __future__ import annotations

import functools
import importlib
import math
import operator
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numba
from numba import cuda, types
from numba.core import errors
from numba.core.target_extension import target_override
from numba.core.typing import Signature, signature
from numba.core.typing.typeof import typeof

from trifold.errors import PrototypeError


@functools.cache
def _context() -> Any:
    if numba.config.ENABLE_CUDASIM:
        raise PrototypeError(
            "a kernel cannot be typed in a process in which Numba's simulator is switched on",
            "unset NUMBA_ENABLE_CUDASIM before Python starts",
        )
    from numba.cpython import cmathimpl  # noqa: F401  # overloads functions of cmath
    from numba.cuda import dispatcher
    from numba.cuda.descriptor import cuda_target

    cuda_target.typing_context.refresh()
    if not cuda.is_available():
        # Overloads are compiled for the current device before they have a type, so pretend to have one.
        dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(9, 0))
    return cuda_target.typing_context


# Types of numba-cuda, which is newer, where Numba's own CUDA target has others.
_NEWER = {math.tanh: types.float16, operator.pos: types.float16}


def type_of_function(value: Any) -> types.Type | None:
    """The type of a device function as an argument, which is one of its own; None: it is another object."""
    found = getattr(value, "_numba_type_", None)
    return found if isinstance(found, types.Dispatcher) else None


def is_function(kind: Sequence[types.Type]) -> bool:
    """Whether arguments of this type are one device function."""
    return all(isinstance(each, types.Dispatcher) for each in kind)


def has_no_value(kind: Sequence[types.Type]) -> bool:
    """Whether a parameter of this type, None or a device function, does not exist in C++: it decides which function is
    called."""
    return bool(kind) and all(isinstance(each, types.Dispatcher | types.NoneType) for each in kind)


@functools.cache
def resolve(function: Any, arguments: tuple[types.Type, ...]) -> Signature | None:
    """The signature of a call with arguments of these types; None: Numba has none."""
    newer = _NEWER.get(function)
    if newer is not None and arguments == (newer,):
        return signature(newer, newer)
    context = _context()
    try:
        with target_override("cuda"):
            return context.resolve_function_type(function, arguments, {})
    except (errors.NumbaError, ValueError, TypeError, AttributeError, AssertionError):
        return None


@functools.cache
def unify(*parts: types.Type) -> types.Type | None:
    """The type of a variable that is assigned values of all these types; None: there is none."""
    if len(set(parts)) == 1:
        return parts[0]
    joined = _context().unify_types(*parts)
    return None if joined is None or isinstance(joined, types.Optional) else joined


def shuffled_type(kind: types.Type) -> types.Type | None:
    """The type in which a number is shuffled between the lanes of a warp; None: it cannot be."""
    intrinsic = getattr(cuda, "shfl_sync_intrinsic", None)  # numba-cuda lacks it
    if intrinsic is None:
        found = resolve(cuda.shfl_sync, (types.uint32, kind, types.int32))
        return None if found is None else found.return_type
    found = resolve(intrinsic, (types.int32, types.int32, kind, types.int32, types.int32))
    return None if found is None else found.return_type[0]


def half_functions() -> Any:
    """The object with the functions of float16, such as ``hadd``. In numba-cuda it is a module that must be
    imported."""
    return getattr(cuda, "fp16", None) or importlib.import_module("numba.cuda.fp16")


def grid_group() -> types.Type:
    """The type of the group in which a cooperative launch's blocks synchronise."""
    from numba.cuda.types import grid_group as group

    kind: types.Type = group
    return kind


def conjugate(number: Any) -> None:
    """Represents ``number.conjugate()`` in the table of operations."""


def sync(group: Any) -> None:
    """Represents ``group.sync()`` in the table of operations."""


def of_dtype_of(number: Any, array: Any) -> None:
    """Represents ``array.dtype.type(number)`` in the table of operations."""


def type_of_constant(value: Any) -> types.Type:
    return types.unliteral(typeof(value))
