"""Explicit signatures of kernels: ``@cuda.jit("void(int32[:], int32)")`` makes its scalar arguments int32.

Numba's simulator forgets them; they are kept here, since they decide what arithmetic a kernel does.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trifold.simulator import arithmetic

Signature = tuple[Any, ...]  # Numba types of the arguments


def keeping_signatures(jit: Callable[..., Any]) -> Callable[..., Any]:
    """``cuda.jit`` that notes a kernel's signatures in its ``signatures``."""
    sigutils = sys.modules[sys.modules[jit.__module__].is_signature.__module__]

    @functools.wraps(jit)
    def keeping(func_or_sig: Any = None, *arguments: Any, **keywords: Any) -> Any:
        made = jit(func_or_sig, *arguments, **keywords)
        if not (sigutils.is_signature(func_or_sig) or isinstance(func_or_sig, list)):
            return made
        given = func_or_sig if isinstance(func_or_sig, list) else [func_or_sig]
        signatures = [sigutils.normalize_signature(signature)[0] for signature in given]

        def decorate(function: Any) -> Any:
            kernel = made(function)
            kernel.signatures = signatures
            return kernel

        return decorate

    return keeping


def cast_scalars(signatures: Sequence[Signature], values: Sequence[Any]) -> list[Any]:
    """The arguments with their numbers converted to the types of the signature that fits best."""
    fitting = [signature for signature in signatures if len(signature) == len(values)]
    if not fitting:
        return list(values)
    best = max(fitting, key=lambda signature: sum(map(_is_exact, signature, values)))
    return [_cast(kind, value) for kind, value in zip(best, values, strict=True)]


def _is_exact(kind: Any, value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return str(getattr(kind, "dtype", "")) == value.dtype.name and getattr(kind, "ndim", -1) == value.ndim
    names = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
    return str(kind) == names.get(type(value), getattr(getattr(value, "dtype", None), "name", type(value).__name__))


def _cast(kind: Any, value: Any) -> Any:
    number = isinstance(value, int | float | np.number | np.bool_)
    cast = arithmetic.device_function(kind) if number else None
    return value if cast is None else cast(value)
