"""The ranges of a launch function's integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.cpp import limits
from trifold.draft.tree import Interval

_OF_RESULTS: dict[Any, Callable[[Interval, Interval], Interval]] = {
    operator.add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    operator.sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    operator.mul: lambda a, b: (min(x * y for x in a for y in b), max(x * y for x in a for y in b)),
}


def range_of_result(op: Any, a: Interval | None, b: Interval | None) -> Interval | None:
    """The range of ``a op b``, without results that overflow, which is undefined in C++. None: it is not known."""
    if a is None or b is None or op not in _OF_RESULTS:
        return None
    of_int64 = limits(v.INT[0])
    assert of_int64 is not None
    (low, high), (least, most) = _OF_RESULTS[op](a, b), of_int64
    return (max(low, least), min(high, most)) if low <= most and high >= least else None


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def ranges_in(test: cpp.Expr) -> dict[str, Interval]:
    """The ranges of the integers, by their C++ variables, for which a condition may be true."""
    found: dict[str, Interval] = {}
    match test:
        case cpp.Infix(operator="&&", left=left, right=right):
            parts = [*ranges_in(left).items(), *ranges_in(right).items()]
        case cpp.Infix(operator=op, left=left, right=right) if op in _MIRRORED:
            parts = [*_bounded(left, op, right), *_bounded(right, _MIRRORED[op], left)]
        case _:
            parts = []
    for name, (low, high) in parts:
        least, most = found.get(name, (low, high))
        found[name] = max(low, least), min(high, most)
    return found


def _bounded(own: cpp.Expr, op: str, other: cpp.Expr) -> list[tuple[str, Interval]]:
    low, high = limits(v.INT[0]) or (0, 0)
    if not isinstance(own, cpp.Name) or own.type != v.INT or other.type != v.INT or other.interval is None:
        return []
    if op in (">", ">=", "=="):
        low = max(low, other.interval[0] + (op == ">"))
    if op in ("<", "<=", "=="):
        high = min(high, other.interval[1] - (op == "<"))
    if op == "!=" and own.interval is not None and {own.interval[0]} == set(other.interval):
        low = own.interval[0] + 1  # it is not the least number that it may be
    return [(own.text, (low, high))]
