"""Bounds of integers that the conditions of ``while`` and ``if`` imply in their bodies.

A version never changes its value, so a condition on it is true wherever the condition had to hold.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types

from trifold.draft import tree as t
from trifold.draft.tree import Interval

_MIRRORED = {
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
    operator.eq: operator.eq,
}

Limits = dict[t.Read, list[tuple[Any, t.Expr]]]  # comparisons with an expression that are true of the read value


def limits_of_reads(function: t.Function) -> Limits:
    found: Limits = {}
    for statement in t.walk(function.body):
        if isinstance(statement, (t.While, t.If)):
            known: dict[t.Version, list[tuple[Any, t.Expr]]] = {}
            for version, compare, other in _said_by(statement.test):
                known.setdefault(version, []).append((compare, other))
            if known:
                _note(statement.body, known, found)
    return found


def _note(body: list[t.Stmt], known: dict[t.Version, list[tuple[Any, t.Expr]]], found: Limits) -> None:
    for statement in t.walk(body):
        for outer in t.expressions(statement):
            for each in t.walk_expression(outer):
                if isinstance(each, t.Read) and each.version in known:
                    found.setdefault(each, []).extend(known[each.version])


def _said_by(test: t.Expr) -> list[tuple[t.Version, Any, t.Expr]]:
    """Comparisons of versions with expressions that a condition implies."""
    match test:
        case t.Logical(all_of=True, operands=operands):
            return [each for operand in operands for each in _said_by(operand)]
        case t.Compare(operators=operators, operands=operands):
            found: list[tuple[t.Version, Any, t.Expr]] = []
            for compare, left, right in zip(operators, operands, operands[1:], strict=False):
                if compare in _MIRRORED and _is_signed(left) and _is_signed(right):
                    if isinstance(left, t.Read):
                        found.append((left.version, compare, right))
                    if isinstance(right, t.Read):
                        found.append((right.version, _MIRRORED[compare], left))
            return found
    return []


def _is_signed(expression: t.Expr) -> bool:
    """Whether it is a signed integer. Numba converts an operand that is compared with an unsigned one."""
    return all(isinstance(each, types.Integer) and each.signed for each in expression.type or (None,))


def limited(interval: Interval | None, limits: list[tuple[Any, t.Expr]]) -> Interval | None:
    """The part of an interval in which these comparisons are true; all of it if there is none."""
    if interval is None:
        return None
    low, high = interval
    for compare, other in limits:
        if other.interval is None:
            continue
        if compare in (operator.lt, operator.le, operator.eq):
            high = min(high, other.interval[1] - (compare is operator.lt))
        if compare in (operator.gt, operator.ge, operator.eq):
            low = max(low, other.interval[0] + (compare is operator.gt))
    return (low, high) if low <= high else interval
