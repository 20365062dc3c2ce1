"""Conditions that constants decide: Numba does not type the branch that is never taken, so that it changes no type."""

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
    """Whether a condition holds: a constant, or a comparison of two; None: it is another one, which Numba types as it
    stands (``numba.core.analysis.dead_branch_prune``).

    Args:
        local: the names that are no constants.
        resolve: what another name stands for, which has to stay so.
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
