"""Conditions decided by constants: Numba does not type the branch that is never taken, so it does not affect types."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection
from typing import Any

from trifold.simulator.types_of import Resolve

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def truth(test: ast.expr, local: Collection[str], resolve: Resolve) -> bool | None:
    """The value of a condition that is a constant, or compares two; None for any other, both branches of which Numba
    types (``numba.core.analysis.dead_branch_prune``).

    Args:
        local: the names that are not constants.
        resolve: returns the object of another name, which must not change.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            known = truth(operand, local, resolve)
            return None if known is None else not known
        case ast.Compare(left=left, ops=[compare], comparators=[right]) if type(compare) in _COMPARISONS:
            values = [_number(each, local, resolve) for each in (left, right)]
            return None if None in values else bool(_COMPARISONS[type(compare)](*values))
    value = _number(test, local, resolve)
    return None if value is None else bool(value)


def _number(node: ast.expr, local: Collection[str], resolve: Resolve) -> float | None:
    value: Any = None
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.Name) and node.id not in local:
        value = resolve(node)
    return value if isinstance(value, (bool, int, float)) else None
