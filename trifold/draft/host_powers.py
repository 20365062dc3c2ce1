"""Powers of a launch function's numbers."""

from __future__ import annotations

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.cpp import fits
from trifold.draft.refusal import DraftError, Place


def as_float(x: v.Number) -> v.Number:
    return x if x.type == v.FLOAT else v.Number(cpp.Cast("double", x.expr, type=v.FLOAT), v.FLOAT)


def power(x: v.Number, y: v.Number, place: Place) -> v.Number:
    """x ** y. Python's float power is C's; an integer power is an integer unless the exponent is negative."""
    if x.precision is not None or y.precision is not None:
        raise DraftError(place, "a power of NumPy's float is not translated", "multiply")
    if v.FLOAT in (x.type, y.type):
        return v.Number(cpp.CallTo("std::pow", (as_float(x).expr, as_float(y).expr), type=v.FLOAT), v.FLOAT)
    if y.interval is None or y.interval[0] < 0:
        problem = "an integer power is a float if the exponent is negative, which is not known while drafting"
        raise DraftError(place, problem, "write a ** max(b, 0), or float(a) ** b")
    base = cpp.Cast("int64_t", x.expr)  # a constant may be an int
    interval = None
    if x.interval is not None and x.interval[0] >= 0 and y.interval[1] < 64:
        # 0 ** 0 is 1.
        interval = x.interval[0] ** y.interval[0] if x.interval[0] else 0, max(x.interval[1], 1) ** y.interval[1]
        interval = interval if fits(interval, v.INT[0]) else None
    return v.Number(cpp.CallTo("trifold::power", (base, y.expr), type=v.INT, interval=interval), v.INT, interval)
