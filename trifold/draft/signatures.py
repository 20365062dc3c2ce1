"""Explicit signatures: ``@cuda.jit("void(float32[:], float32)")`` makes an argument float32 that a launch passes as a
float64. A call converts its numbers to the types of the signature that fits, and the result to the signature's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from numba import types

from trifold.draft.refusal import DraftError, Place
from trifold.draft.tree import Type

_KEPT = "trifold_signatures"


class Signature(NamedTuple):
    """Numba types; the result's is None where the signature does not state it."""

    arguments: tuple[types.Type, ...]
    result: types.Type | None


@contextmanager
def not_compiled() -> Iterator[None]:
    """While a prototype is imported, ``cuda.jit`` keeps signatures and compiles nothing, which needs a GPU's driver."""
    from numba import config, cuda

    if config.ENABLE_CUDASIM:  # the simulator compiles nothing
        yield
        return
    jit = cuda.jit
    cuda.jit = _keeping(jit)
    try:
        yield
    finally:
        cuda.jit = jit


def _keeping(jit: Callable[..., Any]) -> Callable[..., Any]:
    sigutils = sys.modules[sys.modules[jit.__module__].sigutils.__name__]

    @functools.wraps(jit)
    def keeping(func_or_sig: Any = None, *arguments: Any, **keywords: Any) -> Any:
        if not (sigutils.is_signature(func_or_sig) or isinstance(func_or_sig, list)):
            return jit(func_or_sig, *arguments, **keywords)
        given = func_or_sig if isinstance(func_or_sig, list) else [func_or_sig]
        signatures = [Signature(*sigutils.normalize_signature(each)) for each in given]
        made = jit(*arguments, **keywords)

        def decorate(function: Any) -> Any:
            dispatcher = made(function)
            keep(dispatcher, signatures)
            return dispatcher

        return decorate

    return keeping


def keep(function: Any, signatures: Sequence[Signature]) -> None:
    """Give a function signatures, as ``cuda.jit`` does within :func:`not_compiled`."""
    setattr(function, _KEPT, list(signatures))


def signatures_of(function: Any) -> list[Signature]:
    """The explicit signatures of a kernel or device function; none if it takes arguments of any type."""
    kept: list[Signature] | None = getattr(function, _KEPT, None)
    if kept is not None:
        return kept
    if getattr(function, "_can_compile", True):
        return []
    compiled = {arguments: overload.signature.return_type for arguments, overload in function.overloads.items()}
    return [Signature(arguments, result) for arguments, result in compiled.items()]


def converted(function: Any, given: Sequence[Type], place: Place) -> tuple[list[Type], Type | None]:
    """The types of a call's arguments, for each instance, and that of its result if a signature states it.

    Raises:
        DraftError: no signature takes the arguments of an instance, or several do.
    """
    signatures = signatures_of(function)
    if not signatures:
        return list(given), None
    name = getattr(function, "__name__", "the function")
    chosen = [_chosen(signatures, name, kinds, place) for kinds in zip(*given, strict=True)]
    wanted = list(zip(*(each.arguments for each in chosen), strict=True))
    taken = [own if isinstance(own[0], types.Array) else kind for own, kind in zip(given, wanted, strict=True)]
    results = tuple(each.result for each in chosen)
    stated = tuple(each for each in results if each is not None and each != types.void)
    return taken, stated if stated and len(stated) == len(results) else None


def _chosen(signatures: Sequence[Signature], name: str, kinds: tuple[types.Type, ...], place: Place) -> Signature:
    fitting = [each for each in signatures if _fits(each.arguments, kinds)]
    exact = [each for each in fitting if _same_numbers(each.arguments, kinds)]
    found = exact or fitting
    if len(found) == 1:
        return found[0]
    what = f"({', '.join(map(str, kinds))})"
    if not found:
        problem = f"no signature of {name} takes {what}"
        raise DraftError(place, problem, f"add one to those of {name}, or leave its signatures out")
    raise DraftError(place, f"several signatures of {name} take {what}", "leave one out, or convert the numbers")


def _fits(wanted: Sequence[types.Type], given: Sequence[types.Type]) -> bool:
    return len(wanted) == len(given) and all(map(_takes, wanted, given))


def _takes(own: types.Type, kind: types.Type) -> bool:
    if isinstance(own, types.Array) and isinstance(kind, types.Array):
        return (own.dtype, own.ndim) == (kind.dtype, kind.ndim)
    rank, given = _rank(own), _rank(kind)
    return own == kind or (rank is not None and given is not None and rank >= given)


def _rank(kind: types.Type) -> int | None:
    """A number is converted to one of the same or a higher rank: no fraction and no imaginary part is lost."""
    families = (types.Boolean, types.Integer), (types.Float,), (types.Complex,)
    return next((rank for rank, family in enumerate(families) if isinstance(kind, family)), None)


def _same_numbers(wanted: Sequence[types.Type], given: Sequence[types.Type]) -> bool:
    pairs = zip(wanted, given, strict=True)
    return all(own == kind for own, kind in pairs if not isinstance(own, types.Array))
