"""Explicit signatures of kernels: ``@cuda.jit("void(int32[:], int32)")`` makes its scalar arguments int32.

Numba's simulator discards signatures; they are kept here, since they determine a kernel's arithmetic.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from trifold.simulator import arithmetic
from trifold.simulator.arguments import ArgumentError
from trifold.simulator.rewriter import Conversions

_FAMILIES = ("int", "uint", "float", "complex")
Signature = tuple[Any, ...]  # Numba types of the arguments


_of_functions: WeakKeyDictionary[FunctionType, tuple[Signature, Any]] = WeakKeyDictionary()


def signature_of(function: FunctionType) -> tuple[Signature, Any] | None:
    """Numba's types of the arguments and of the result, of a function with one explicit signature."""
    return _of_functions.get(function)


def conversions(function: FunctionType) -> Conversions | None:
    """The conversions by a device function with one explicit signature, of its arguments and its result."""
    known = _of_functions.get(function)
    if known is None:
        return None
    arguments, result = known
    return Conversions(tuple(map(_number, arguments)), _number(result))


def _number(kind: Any) -> Any | None:
    return None if kind is None else arithmetic.device_function(kind)


# Options of numba.cuda.jit for the GPU compiler, which its simulator does not accept.
_OPTIONS_OF_COMPILERS = frozenset(
    {"abi", "extensions", "forceinline", "launch_bounds", "lineinfo", "lto", "max_registers", "nopython"}
    | {"shared_memory_carveout"}
)


def keeping_signatures(jit: Callable[..., Any]) -> Callable[..., Any]:
    """``cuda.jit`` that records a kernel's signatures in its ``signatures``."""
    sigutils = sys.modules[sys.modules[jit.__module__].is_signature.__module__]

    @functools.wraps(jit)
    def keeping(func_or_sig: Any = None, *arguments: Any, **keywords: Any) -> Any:
        keywords = {name: value for name, value in keywords.items() if name not in _OPTIONS_OF_COMPILERS}
        made = jit(func_or_sig, *arguments, **keywords)
        if not (sigutils.is_signature(func_or_sig) or isinstance(func_or_sig, list)):
            return made
        given = func_or_sig if isinstance(func_or_sig, list) else [func_or_sig]
        signatures = [sigutils.normalize_signature(signature) for signature in given]

        def decorate(function: Any) -> Any:
            kernel = made(function)
            kernel.signatures = [arguments for arguments, _ in signatures]
            if len(signatures) == 1:
                _of_functions[function] = signatures[0]
            return kernel

        return decorate

    return keeping


def cast_scalars(kernel: str, signatures: Sequence[Signature], values: Sequence[Any]) -> list[Any]:
    """The arguments with their numbers converted to the types of the signature that fits best.

    Raises:
        ArgumentError: each signature would lose a fraction or an imaginary part.
    """
    candidates = [signature for signature in signatures if len(signature) == len(values)]
    if not candidates:
        return list(values)  # the number of arguments is checked elsewhere
    fitting = [signature for signature in candidates if all(map(_holds, signature, values))]
    if not fitting:
        given = ", ".join(type(value).__name__ for value in values)
        raise ArgumentError(
            f"{kernel}: none of its signatures takes ({given})",
            f"it has {' and '.join(map(str, signatures))}; convert the numbers, or leave the signature out",
        )
    best = max(fitting, key=lambda signature: sum(map(_is_exact, signature, values)))
    return [_cast(kind, value) for kind, value in zip(best, values, strict=True)]


def _is_exact(kind: Any, value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return str(getattr(kind, "dtype", "")) == value.dtype.name and getattr(kind, "ndim", -1) == value.ndim
    names = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
    return str(kind) == names.get(type(value), getattr(getattr(value, "dtype", None), "name", type(value).__name__))


def _holds(kind: Any, value: Any) -> bool:
    """Whether a number of this type is convertible to the signature's; everything but numbers is."""
    name = str(kind)
    rank = next((i for i, family in enumerate(_FAMILIES) if name.startswith(family)), None)
    if rank is None or not isinstance(value, int | float | complex | np.number | np.bool_):
        return True
    return rank >= (3 if isinstance(value, complex) or np.iscomplexobj(value) else _rank_of_real(value))


def _rank_of_real(value: Any) -> int:
    return 0 if isinstance(value, int | np.integer | np.bool_) else 2


def _cast(kind: Any, value: Any) -> Any:
    number = isinstance(value, int | float | np.number | np.bool_)
    cast = arithmetic.device_function(kind) if number else None
    return value if cast is None else cast(value)
