"""The results of a call, which a function may return in nested tuples and lists."""

from __future__ import annotations

import itertools
from typing import Any

from torch import Tensor


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    """The tensors of a result in order, without nesting and without None."""
    if isinstance(result, tuple | list):
        return tuple(itertools.chain.from_iterable(map(as_tuple, result)))
    return () if result is None else (result,)


def most_results(result: Any) -> int | None:
    """How many tensors a function returns, with one in place of each None; None if a list may have any number."""
    if isinstance(result, list):
        return None
    if not isinstance(result, tuple):
        return 1
    counts = [most_results(one) for one in result]
    return None if None in counts else sum(count for count in counts if count is not None)


def form_of_whole(result: Any) -> str:
    """The nesting of a result: "a tensor", "(a tensor, None)"."""
    if isinstance(result, list):
        return f"[{', '.join(map(form_of_whole, result))}]"
    if isinstance(result, tuple):
        return f"({', '.join(map(form_of_whole, result))})"
    return "a tensor" if isinstance(result, Tensor) else repr(result)
