"""The compiled kernels of a process, one per list of argument types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba.core import types
from numba.core.errors import NumbaError
from numba.core.typing.typeof import typeof
from numba.np import numpy_support

from trifold.errors import ToolchainError
from trifold.simulator import arithmetic
from trifold.simulator.arguments import BITS_OF_BFLOAT16, Staging
from trifold.simulator.compiled import fallbacks
from trifold.simulator.compiled.drafts import Refusal, draft_of
from trifold.simulator.compiled.fallbacks import FallbackError
from trifold.simulator.compiled.library import PLAIN, BuildRefusedError
from trifold.simulator.compiled.native import ALL, NONE, Functions, Native, is_plain
from trifold.simulator.compiled.request import NoTextError, request_for
from trifold.simulator.settings import Options

_CAST = tuple(kind for name, kind in arithmetic.CASTS.items() if isinstance(kind, type) and hasattr(kind, "item"))


_OWNS_DATA = 4  # NPY_ARRAY_OWNDATA
_Ran = tuple[Native, Functions]


class Compiled:
    """The compiled kernels of a process, one per list of argument types."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[FunctionType, dict[tuple[object, ...], Native | str]] = WeakKeyDictionary()
        # Launches that may be repeated: without checks, and with simple arguments.
        self._ran: WeakKeyDictionary[FunctionType, dict[tuple[object, ...], _Ran]] = WeakKeyDictionary()

    def launch(
        self,
        kernel: Any,
        staging: Staging,
        arguments: Sequence[Any],
        options: Options,
        functions: Functions,
        *,
        again: bool,
    ) -> bool:
        """Whether the launch was run; otherwise the interpreter must run it, and the reason is noted. ``again``: later
        launches with arguments of the same types may use :meth:`again`.

        Raises:
            KernelFault, LaunchError: as in the interpreter.
        """
        function = kernel.fn
        where = kernel.grid_dim, kernel.block_dim, kernel.dynshared_size
        try:
            if kernel._debug:
                raise FallbackError("it has debug=True")
            if options.checks not in (ALL, NONE):
                names = ",".join(sorted(options.checks - NONE))
                raise FallbackError(f"compiled kernels have all checks or none, not {names}")
            if staging.tuples:
                raise FallbackError("an argument is a tuple")
            known = self._known.setdefault(function, {})
            key = _key_of(staging, arguments)
            native = known.get(key)
            if native is None:
                native = known[key] = _made(function, staging, arguments)
            if isinstance(native, str):
                raise FallbackError(native)
            try:
                native.launch(staging, arguments, where, options, functions)
            except BuildRefusedError as error:
                known[key] = str(error)
                raise FallbackError(str(error)) from None
            if again and is_plain(options) and (simple := _simple(kernel, arguments)) is not None:
                self._ran.setdefault(function, {})[simple] = native, functions
        except FallbackError as error:
            fallbacks.note(function, str(error))
            return False
        return True

    def again(self, kernel: Any, arguments: Sequence[Any], options: Options) -> Callable[[], None] | None:
        """A repeatable launch without checks, with arguments of the same types; None if there is none."""
        ran = self._ran.get(kernel.fn)
        if ran is None or not is_plain(options) or (simple := _simple(kernel, arguments)) not in ran:
            return None
        native, functions = ran[simple]
        where = kernel.grid_dim, kernel.block_dim, kernel.dynshared_size
        return lambda: native.launch_again(arguments, where, options, functions)


def _simple(kernel: Any, arguments: Sequence[Any]) -> tuple[object, ...] | None:
    """The key of a repeatable launch, if the arguments can be passed unchanged: numbers, and host arrays that share no
    memory; otherwise None."""
    if kernel._debug or kernel.extensions or hasattr(kernel, "signatures"):
        return None
    key: list[object] = []
    arrays: set[int] = set()
    for value in arguments:
        kind = type(value)
        if kind is np.ndarray:
            flags = value.flags.num
            if not flags & _OWNS_DATA or id(value) in arrays:
                return None
            arrays.add(id(value))
            key.append((value.dtype, value.ndim, flags))
        elif kind in (float, bool) or (kind is int and -(2**63) <= value < 2**63) or _is_number(kind):
            key.append(kind)
        else:
            return None
    return tuple(key)


def _is_number(kind: type) -> bool:
    return issubclass(kind, np.generic) and kind is not np.void


def _key_of(staging: Staging, arguments: Sequence[Any]) -> tuple[object, ...]:
    """The values that determine the types of the arguments. (Captured arrays follow them.)"""
    return tuple(
        [
            (value.dtype, value.ndim, value.flags.c_contiguous, value.flags.aligned)
            if isinstance(value, np.ndarray)
            else _kind_of(argument)
            for value, argument in zip(staging.values, arguments, strict=False)
        ]
    )


def _kind_of(value: Any) -> object:
    kind = type(value)
    return (kind, -(2**63) <= value < 2**63) if kind is int else kind


def _made(function: FunctionType, staging: Staging, arguments: Sequence[Any]) -> Native | str:
    """The drafted kernel, or the reason why it cannot be drafted."""
    try:
        kinds = [_type_of(staging, number, argument) for number, argument in enumerate(arguments)]
        draft = draft_of(request_for(function, kinds))
        if isinstance(draft, Refusal):
            return draft.reason
        native = Native(draft)
        native.library(PLAIN)  # reports unsupported parameters now
    except (FallbackError, NoTextError, BuildRefusedError, ToolchainError) as error:
        return str(error)
    return native


def _type_of(staging: Staging, number: int, argument: Any) -> types.Type:
    value, name = staging.values[number], staging.names[number]
    if not isinstance(value, np.ndarray):
        if isinstance(argument, _CAST):  # by the kernel's signature
            return getattr(types, type(argument).__name__)  # type: ignore[no-any-return]
        try:
            kind: types.Type = types.unliteral(typeof(argument))  # type: ignore[attr-defined]
            return kind
        except (NumbaError, ValueError, TypeError):
            raise FallbackError(f"{name} is a {type(argument).__name__}") from None
    if staging.flags[number] & BITS_OF_BFLOAT16:
        raise FallbackError(f"{name} is of bfloat16")
    if number in staging.records:
        raise FallbackError(f"{name} is a record")
    if not value.flags.aligned or any(stride % value.itemsize for stride in value.strides):
        raise FallbackError(f"{name} is not aligned to its elements")
    try:
        dtype = numpy_support.from_dtype(value.dtype)
    except (NumbaError, NotImplementedError):
        raise FallbackError(f"{name} is of {value.dtype}") from None
    return types.Array(dtype, value.ndim, "C" if value.flags.c_contiguous else "A")
