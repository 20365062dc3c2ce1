"""The ranges of a launch function's integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

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
    return common(limits(v.INT[0]), _OF_RESULTS[op](a, b))


def common(a: Interval | None, b: Interval | None) -> Interval | None:
    """The numbers in both ranges."""
    if a is None or b is None:
        return a or b
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else None
