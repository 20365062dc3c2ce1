"""Evaluates what is known of an expression before any thread runs."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from trifold.draft import tree as t

BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def folded(node: ast.expr) -> Any:
    """The value of an expression of literals, which CPython folds before Numba sees it; otherwise None."""
    match node:
        case ast.Constant(value=value) if isinstance(value, (bool, int, float, complex)):
            return value
        case ast.UnaryOp(op=op, operand=operand):
            value = folded(operand)
            return None if value is None else UNARY[type(op)](value)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            a, b = folded(left), folded(right)
            if a is None or b is None:
                return None
            try:
                return BINARY[type(op)](a, b)
            except (ArithmeticError, ValueError, TypeError):
                return None
    return None


def truth(test: t.Expr) -> bool | None:
    """Whether a condition holds, if that is the same for all threads; otherwise None."""
    match test:
        case t.Constant(value=value):
            return bool(value)
        case t.Unary(operator=operator.not_, operand=operand):
            known = truth(operand)
            return None if known is None else not known
        case t.Compare(operators=[compare], operands=[t.Constant(value=a), t.Constant(value=b)]):
            return bool(compare(a, b))
    return None
