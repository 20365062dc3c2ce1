"""Ranges of a kernel's integers, over all its functions: they show what may be an `int`, and where `/` is the same as
Python's `//`.

A range holds for every thread of every launch whose arguments are within their given ranges. An operation whose exact
result may exceed its type has the range of the type, since it wraps.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence

from numba import cuda, types
from numba.core.typing import Signature

from trifold.draft import tree as t
from trifold.draft.conditions import Limits, limited, limits_of_reads
from trifold.draft.cpp import limits
from trifold.draft.tree import Interval

MOST_ELEMENTS = 2**47  # limit of an address space
INDEX_LIMITS = {
    cuda.threadIdx: (0, 1023),
    cuda.blockIdx: (0, 2**31 - 2),
    cuda.blockDim: (1, 1024),
    cuda.gridDim: (1, 2**31 - 1),
}
_OF_GRID = {cuda.grid: (0, 2**41), cuda.gridsize: (1, 2**41)}  # of each dimension
_PATIENCE = 4  # rounds after which a range that still grows is widened
_MOST_ROUNDS = 60
_LOWER = (0, -1, -(2**31), -(2**63))
_UPPER = (2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)


def find_ranges(kernel: t.Function, given: dict[str, Interval]) -> None:
    """Set the interval of every expression and version of a kernel and of the functions that it calls.

    Args:
        given: the range of a scalar parameter, by name, if smaller than its type's.
    """
    functions = list(_called_from(kernel))
    results: dict[t.Function, list[Interval | None]] = {}
    said: Limits = {}
    for function in functions:
        said |= limits_of_reads(function)
    for version in kernel.parameters:
        own, bounds = given.get(version.name), _of_type(version.type)
        # A signature may convert an argument to another type than that of the given range.
        version.interval = own if own is not None and bounds is not None and _within(own, bounds) else bounds
    for turn in range(_MOST_ROUNDS):
        ranges = _Ranges(results, said, widen=turn >= _PATIENCE)
        for function in functions:
            ranges.function(function)
        if not ranges.changed:
            return
    raise AssertionError("ranges do not settle")


def result_ranges(function: t.Function) -> list[Interval | None]:
    """The ranges of a device function's result: of each element of a tuple, or of the one value."""
    return _results_of(function)


def _called_from(function: t.Function) -> Iterable[t.Function]:
    seen: dict[t.Function, None] = {}
    waiting = [function]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen[each] = None
            waiting += each.callees
    return seen


def _of_type(kind: t.Type | None) -> Interval | None:
    """The range of the integer type that all instances have; None: the types differ, or are not integers."""
    if kind is None or len(set(kind)) != 1:
        return None
    return limits(kind[0])


def _union(parts: Iterable[Interval | None]) -> Interval | None:
    known = [part for part in parts if part is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _results_of(function: t.Function) -> list[Interval | None]:
    rows = []
    for each in function.returns:
        if isinstance(each.value, t.TupleOf):
            rows.append([element.interval for element in each.value.elements])
        elif each.value is not None and isinstance((each.value.type or (None,))[0], types.BaseTuple):
            rows.append([_of_type(kind) for kind in zip(*(each.value.type or ()), strict=True)])
        elif each.value is not None:
            rows.append([each.value.interval])
    return [_union(column) for column in zip(*rows, strict=True)] if rows else []


class _Ranges:
    def __init__(self, results: dict[t.Function, list[Interval | None]], said: Limits, *, widen: bool) -> None:
        self.results = results
        self.said = said  # bounds of reads, by the conditions around them
        self.widen = widen
        self.changed = False

    def function(self, function: t.Function) -> None:
        for statement in t.walk(function.body):
            for outer in t.expressions(statement):
                self._expression(outer)
            match statement:
                case t.Let(version=version, value=value):
                    self._set(version, value.interval)
                case t.Unpack(versions=versions):
                    for version in versions:
                        self._set(version, self._part(version))
                case t.ForRange(version=version) if version is not None:
                    self._set(version, self._counted(statement))
                case t.ForTuple(version=version, elements=t.TupleOf(elements=elements)) if version is not None:
                    self._set(version, _union(each.interval for each in elements))
                case t.ForTuple(version=version) if version is not None:
                    self._set(version, _of_type(version.type))
        for version in function.versions:
            if version.is_join and version.is_read and _of_type(version.type):
                self._set(version, _union(source.interval for source in version.sources))
        self.results[function] = _results_of(function)

    def _set(self, version: t.Version, new: Interval | None) -> None:
        bounds = _of_type(version.type)
        if new is None or bounds is None:
            return
        old = version.interval
        new = _union([old, new])
        assert new is not None
        if new == old:
            return
        if self.widen and old is not None:
            new = _widened(old, new)
        if not (bounds[0] <= new[0] and new[1] <= bounds[1]):
            new = bounds
        if new != old:
            version.interval = new
            self.changed = True

    def _part(self, version: t.Version) -> Interval | None:
        value = version.value
        if version.part is None:
            return value.interval if value is not None else None
        if isinstance(value, t.Call) and value.callees is not None:
            found = self.results.get(value.callees, [])
            return found[version.part] if version.part < len(found) else None
        if isinstance(value, t.Call) and value.function in (cuda.grid, cuda.gridsize):
            return _OF_GRID[value.function]
        if isinstance(value, t.Attribute) and value.name == "shape":
            return 0, MOST_ELEMENTS
        return _of_type(version.type)

    def _counted(self, statement: t.ForRange) -> Interval | None:
        bounds = [bound.interval for bound in statement.bounds]
        if any(bound is None for bound in bounds):
            return _of_type(statement.counter) if statement.counter and _of_type(statement.counter) else None
        start = bounds[0] if len(bounds) > 1 else (0, 0)
        stop = bounds[1] if len(bounds) > 1 else bounds[0]
        step = bounds[2] if len(bounds) > 2 else (1, 1)
        assert start is not None
        assert stop is not None
        assert step is not None
        up = (start[0], max(start[0], stop[1] - 1)) if step[1] > 0 else None
        down = (min(start[1], stop[0] + 1), start[1]) if step[0] < 0 else None
        return _union([up, down])

    # --------------------------------------------------------------------------------------------- expressions

    def _expression(self, expression: t.Expr) -> None:
        for child in expression.children():
            self._expression(child)
        if isinstance(expression, t.Call) and expression.callees is not None:
            for version, argument in zip(expression.callees.parameters, expression.arguments, strict=True):
                # With the variable's type, which parameters keep, although the value would fit a narrower one.
                self._set(version, argument.version.interval if isinstance(argument, t.Read) else argument.interval)
        bounds = _of_type(expression.type)
        if bounds is None:
            return
        exact = self._exact(expression, bounds)
        if exact is None:
            return
        new = exact if _within(exact, bounds) else bounds
        if new != expression.interval:
            expression.interval = new
            self.changed = True

    def _exact(self, expression: t.Expr, bounds: Interval) -> Interval | None:
        match expression:
            case t.Constant(value=value):
                return int(value), int(value)
            case t.Read(version=version):
                return limited(version.interval, self.said.get(expression, []))
            case t.Attribute(name="laneid"):
                return 0, 31
            case t.Attribute(base=t.Known(value=stub), name=name):
                low, high = INDEX_LIMITS[stub]
                if name != "x" and stub in (cuda.blockIdx, cuda.gridDim):
                    high = min(high, 65535)
                return low, 63 if name == "z" and stub is cuda.threadIdx else high
            case t.Attribute(base=base) if isinstance((base.type or (None,))[0], types.Record):
                return bounds
            case t.Attribute(name="size" | "ndim"):
                return 0, MOST_ELEMENTS
            case t.Item(base=t.Call(function=function)) if function in (cuda.grid, cuda.gridsize):
                return _OF_GRID[function]
            case t.Item(base=t.Attribute(name="shape")):
                return 0, MOST_ELEMENTS
            case t.Item(base=t.Table(values=values) | t.Read(version=t.Version(value=t.Table(values=values)))):
                return int(values.min()), int(values.max())
            case t.Item(
                base=t.Read(version=t.Version(part=None, value=t.TupleOf(elements=elements))),
                indices=[t.Constant(value=int() as number)],
            ):
                return elements[number].interval
            case t.Item(base=t.Read(version=t.Version(value=t.TupleOf(elements=elements)))):
                return _union(each.interval for each in elements)
            case t.Compare():
                return 0, 1
            case t.Logical(operands=operands):
                return _union(each.interval for each in operands)
            case t.Choice(chosen=chosen, otherwise=otherwise):
                return _union([chosen.interval, otherwise.interval])
            case t.Unary(operator=op, operand=operand):
                if op is operator.neg and overflows(operand.interval, expression.signature):
                    return _union(limits(each.args[0]) for each in expression.signature)
                return _unary(op, operand.interval, bounds)
            case t.Binary(operator=op, left=left, right=right):
                sides = [left.interval, right.interval]
                if op not in _MODULAR:
                    sides = [_converted(side, expression.signature, place) for place, side in enumerate(sides)]
                if sides[0] is None or sides[1] is None:
                    return None
                combine = _BINARY.get(op)
                return bounds if combine is None else combine(sides[0], sides[1]) or bounds
            case t.Call():
                return self._called(expression, bounds)
        return bounds

    def _called(self, call: t.Call, bounds: Interval) -> Interval | None:
        if call.callees is not None:
            found = self.results.get(call.callees, [])
            return found[0] if found else None
        arguments = [argument.interval for argument in call.arguments]
        if call.function in (cuda.grid, cuda.gridsize):
            return _OF_GRID[call.function]
        if call.function in (min, max):
            if any(each is None for each in arguments):
                return None
            known = [each if _within(each, bounds) else bounds for each in arguments if each is not None]
            choose = min if call.function is min else max
            return choose(low for low, _ in known), choose(high for _, high in known)
        if call.function is abs and arguments[0] is not None:
            low, high = arguments[0]
            largest = max(abs(low), abs(high))
            if largest > bounds[1]:
                return bounds  # the negative of the least number is itself
            return (0 if low <= 0 <= high else min(abs(low), abs(high))), largest
        if call.function in (cuda.popc, cuda.ffs, cuda.clz):
            return 0, 64
        if call.function in _CONVERSIONS or isinstance(call.function, types.Integer):
            given = call.arguments[0]
            return given.interval if _of_type(given.type) else bounds
        return bounds


_CONVERSIONS = (int,)


def _widened(old: Interval, new: Interval) -> Interval:
    low, high = new
    if low < old[0]:
        low = next((bound for bound in _LOWER if bound <= low), low)
    if high > old[1]:
        high = next((bound for bound in _UPPER if bound >= high), high)
    return low, high


def _unary(op: object, operand: Interval | None, bounds: Interval) -> Interval | None:
    if operand is None:
        return None
    low, high = operand
    if op is operator.neg:
        return -high, -low
    if op is operator.invert:
        return ~high, ~low
    if op is operator.pos:
        return operand
    return (0, 1) if op is operator.not_ else bounds


def overflows(operand: Interval | None, signature: Sequence[Signature]) -> bool:
    """Whether the operand of a negation may be the least number of its type, whose negation is itself: Numba computes
    in that type, and then widens the result."""
    least = [limits(each.args[0]) for each in signature]
    return any(each is not None and each[0] < 0 and (operand is None or operand[0] <= each[0]) for each in least)


def _within(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


# If the result fits, an earlier conversion of an operand to another type does not matter.
_MODULAR = (operator.add, operator.sub, operator.mul, operator.iadd, operator.isub, operator.imul)


def _converted(interval: Interval | None, signature: Sequence[Signature] | None, place: int) -> Interval | None:
    """The range of an operand after its conversion to the operation's type, in which a uint64 may be negative."""
    bounds = [limits(each.args[place]) for each in signature or ()]
    if interval is None or all(each is None or _within(interval, each) for each in bounds):
        return interval
    return _union(bounds)


def _corners(combine: object, a: Interval, b: Interval) -> Interval:
    values = [combine(x, y) for x, y in itertools.product(a, b)]  # type: ignore[operator]
    return min(values), max(values)


def _floor_divide(a: Interval, b: Interval) -> Interval | None:
    if b[0] >= 1:
        return _corners(operator.floordiv, a, b)
    if b[0] == 0 and b[1] >= 1:  # Numba's result of a division by zero is 0
        return _union([(0, 0), _corners(operator.floordiv, a, (1, b[1]))])
    return None


def _modulo(a: Interval, b: Interval) -> Interval | None:
    if b[0] < 0:
        return None
    if a[0] >= 0:
        return 0, min(a[1], max(b[1] - 1, 0))
    return 0, max(b[1] - 1, 0)


def _shift_left(a: Interval, b: Interval) -> Interval | None:
    return _corners(operator.lshift, a, b) if b[0] >= 0 and b[1] < 64 else None


def _shift_right(a: Interval, b: Interval) -> Interval | None:
    return _corners(operator.rshift, a, b) if b[0] >= 0 and b[1] < 64 else None


def _signed_bits(*parts: Interval) -> Interval:
    """The smallest range of the form [-2^k, 2^k) or [0, 2^k) that contains both."""
    low, high = min(low for low, _ in parts), max(high for _, high in parts)
    bits = max(high.bit_length(), (~low).bit_length() if low < 0 else 0)
    return (-(1 << bits) if low < 0 else 0), (1 << bits) - 1


def _and(a: Interval, b: Interval) -> Interval:
    known = [high for low, high in (a, b) if low >= 0]
    return (0, min(known)) if known else _signed_bits(a, b)


def _power(a: Interval, b: Interval) -> Interval | None:
    if a[0] < 0 or b[0] < 0 or b[1] > 63:
        return None
    return a[0] ** b[0], max(a[1], 1) ** b[1]


_BINARY: dict[object, Callable[[Interval, Interval], Interval | None]] = {
    operator.add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    operator.sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    operator.mul: lambda a, b: _corners(operator.mul, a, b),
    operator.floordiv: _floor_divide,
    operator.mod: _modulo,
    operator.lshift: _shift_left,
    operator.rshift: _shift_right,
    operator.and_: _and,
    operator.or_: _signed_bits,
    operator.xor: _signed_bits,
    operator.pow: _power,
}
