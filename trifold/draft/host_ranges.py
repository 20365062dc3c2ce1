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
    of_int64 = limits(v.INT[0])
    assert of_int64 is not None
    (low, high), (least, most) = _OF_RESULTS[op](a, b), of_int64
    return (max(low, least), min(high, most)) if low <= most and high >= least else None
