"""The order of evaluation. Python evaluates operands and arguments from left to right; C++ leaves their order open.

Where it matters, an operand is computed into a variable before the statement: one that changes memory which another
one reads or changes, or the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numba import cuda, types

from trifold.draft import tree as t
from trifold.draft.operations import WRITE_ELEMENTS
from trifold.draft.origins import is_array, origins
from trifold.draft.refusal import DraftError, Place

_BARRIERS = frozenset({cuda.syncthreads_count, cuda.syncthreads_and, cuda.syncthreads_or})


@dataclass(frozen=True)
class _Effects:
    """The types of the elements that an expression reads, and of those that it changes; ``waits``: it waits for other
    threads, after which each element may be another one."""

    reads: frozenset[Any] = frozenset()
    writes: frozenset[Any] = frozenset()
    waits: bool = False

    def __or__(self, other: _Effects) -> _Effects:
        return _Effects(self.reads | other.reads, self.writes | other.writes, self.waits or other.waits)

    def __bool__(self) -> bool:
        return bool(self.reads or self.writes or self.waits)

    def disturb(self, other: _Effects) -> bool:
        """Whether the order of the two matters."""
        if self.waits or other.waits:
            return bool(self) and bool(other)
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)


_NOTHING = _Effects()


@dataclass
class _Step:
    """An expression that reads or changes memory."""

    expression: t.Expr
    first: int  # the number of the first step within it
    own: _Effects
    all: _Effects  # with those of the steps within it


class Order:
    """The steps of a statement, in Python's order. ``before``: the expressions to compute before it; ``old``: if the
    element that a statement such as ``x[i] += v`` changes is also read before, after how many of them."""

    def __init__(self, statement: t.Stmt) -> None:
        self._steps: list[_Step] = []
        self._wanted: set[int] = set()
        self.old: int | None = None
        place_ends = None  # the number of steps in the indices of an element that is read before
        match statement:
            case t.Store(operator=None, value=value, base=base, indices=indices):
                self._visit(value)
                self._unordered([base, *indices])
            case t.Store(value=value, base=base, indices=indices):
                place_ends = self._updated(base, indices, value)
            case t.While(test=test):
                self._conditional([test])
            case _:
                self._unordered(list(t.expressions(statement)))
        self._complete()
        self.before = [self._steps[number].expression for number in sorted(self._wanted)]
        if place_ends is not None:
            self.old = sum(number < place_ends for number in self._wanted)

    def _updated(self, base: t.Expr, indices: list[t.Expr], value: t.Expr) -> int | None:
        self._unordered([base, *indices])
        place_ends = len(self._steps)
        changes = self._visit(value)  # which C++ computes first
        old = _Effects(reads=_elements(base)).disturb(changes)
        self._want(0, place_ends, _Effects(waits=True) if old else changes)  # an element that is named twice
        return place_ends if old else None

    # --------------------------------------------------------------------------------------------- expressions

    def _visit(self, expression: t.Expr) -> _Effects:
        """The effects of an expression, whose steps are noted."""
        first = len(self._steps)
        match expression:
            case t.Choice(test=test, chosen=chosen, otherwise=otherwise):
                within, own = self._visit(test), self._conditional([chosen, otherwise])
            case t.Logical(operands=[operand, *others]):
                within, own = self._visit(operand), self._conditional(others)
            case t.Compare(operands=[left, right, *others]):
                within, own = self._unordered([left, right]), self._conditional(others)
            case _:
                within, own = self._unordered(list(expression.children())), _own(expression)
        if own:
            self._steps.append(_Step(expression, first, own, within | own))
        return within | own

    def _unordered(self, parts: list[t.Expr]) -> _Effects:
        """The effects of expressions whose order C++ leaves open."""
        found = _NOTHING
        begin = len(self._steps)
        for part in parts:
            end = len(self._steps)
            own = self._visit(part)
            self._want(begin, end, own)
            found |= own
        return found

    def _want(self, begin: int, end: int, later: _Effects) -> None:
        """Compute those of these steps before whose order with a later one matters, as parts of the outermost ones."""
        number = end - 1
        while number >= begin:
            step = self._steps[number]
            if step.own.disturb(later):
                self._wanted.add(number)
                number = step.first - 1
            else:
                number -= 1

    def _conditional(self, parts: list[t.Expr]) -> _Effects:
        """The effects of expressions that may not be evaluated, or several times: nothing in them is computed
        before."""
        steps, wanted, self._steps, self._wanted = self._steps, self._wanted, [], set()
        found = _NOTHING
        for part in parts:
            found |= self._visit(part)
        if self._wanted:
            raise _refused(self._steps[min(self._wanted)].expression.place)
        self._steps, self._wanted = steps, wanted
        return found

    def _complete(self) -> None:
        """What is computed before the statement is also computed after what Python computes before it."""
        waiting = set(self._wanted)
        while waiting:
            step = self._steps[waiting.pop()]
            known = set(self._wanted)
            self._want(0, step.first, step.all)
            waiting |= self._wanted - known


def _refused(place: Place) -> DraftError:
    return DraftError(
        place,
        "C++ leaves open whether this is computed before or after what else the expression reads or changes in memory",
        "assign it to a variable before",
    )


def _own(expression: t.Expr) -> _Effects:
    """The effects of an expression without those of its operands."""
    match expression:
        case t.Item(base=base) if is_array(base.type) and not is_array(expression.type):
            return _Effects(reads=_elements(base))
        case t.Attribute(base=t.Expr(type=kind)) if any(isinstance(each, types.Record) for each in kind or ()):
            return _Effects(reads=frozenset(kind or ()))
        case t.Call(callees=t.Function() as callee):
            return _of_function(callee)
        case t.Call(function=called, arguments=[array, *_]) if called in WRITE_ELEMENTS:
            return _Effects(_elements(array), _elements(array))
        case t.Call(function=called):
            return _Effects(waits=called in _BARRIERS)
    return _NOTHING


def _of_function(function: t.Function) -> _Effects:
    """The effects of a device function on memory that outlives it."""
    found = _NOTHING
    for statement in t.walk(function.body):
        match statement:
            case t.Store(base=base):
                found |= _Effects(writes=_elements(base))
            case t.ForTuple(elements=whole) | t.Unpack(value=whole):
                found |= _Effects(reads=_elements(whole))
        for outer in t.expressions(statement):
            for each in t.walk_expression(outer):
                found |= _own(each)
                found |= _Effects(waits=isinstance(each, t.Call) and each.function is cuda.syncthreads)
    return found


def _elements(base: t.Expr) -> frozenset[Any]:
    """The types of the elements of an array or record; none of a constant table, which never changes."""
    if is_array(base.type) and all(isinstance(each, t.Table) for each in origins(base).arrays):
        return frozenset()
    kinds = [each.dtype if isinstance(each, types.Array) else each for each in base.type or ()]
    return frozenset(each for each in kinds if isinstance(each, types.Number | types.Boolean | types.Record))
