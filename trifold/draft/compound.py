"""``x += y`` in place of ``x = x + y``."""

from __future__ import annotations

from trifold.draft import cpp
from trifold.draft.printer import expression

_OPERATORS = frozenset({"+", "-", "*", "/", "&", "|", "^", "<<", ">>", "%"})


def assignment(target: cpp.Expr, value: cpp.Expr, *, line: int = 0) -> cpp.Assign:
    """An assignment; a compound one if the value is a binary operation whose left operand is the target."""
    if isinstance(value, cpp.Infix) and value.operator in _OPERATORS and expression(value.left) == expression(target):
        return cpp.Assign(target, f"{value.operator}=", value.right, line=line)
    return cpp.Assign(target, "=", value, line=line)
