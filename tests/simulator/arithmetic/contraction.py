"""The set of all legal results of an expression for a compiler that may fuse a product with a sum.

CUDA's compiler turns ``a * b + c`` into one operation that rounds once (``fma``), where it likes. The simulator rounds
each operation. To distinguish that from an error, every sum with a product in it is computed both ways, exactly: the
simulator must give the value of the expression without any fusion, and the GPU one of the set. No tolerance is
involved.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

MOST = 20_000  # values of one expression; beyond that it is not decided


class TooMany(Exception):
    """The expression has more legal results than are worth counting."""


def rounded(exact: Fraction, kind: str) -> float:
    """The nearest number of the type, ties to even."""
    digits, lowest = {"float32": (24, -149), "float64": (53, -1074)}[kind]
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    place = max(exponent - digits + 1, lowest)
    value = math.ldexp(round(size / Fraction(2) ** place), place)  # round() of a Fraction goes to even
    return math.copysign(value, exact)


def fused(a: float, b: float, c: float, kind: str) -> float:
    """a * b + c with one rounding."""
    if not all(map(math.isfinite, (a, b, c))):
        return float(np.dtype(kind).type(a) * np.dtype(kind).type(b) + np.dtype(kind).type(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return rounded(exact, kind) if exact else a * b + c


def results(expression: str, values: Mapping[str, float], kind: str, *, fuse: bool = True) -> set[float]:
    """All values that the expression may have; without ``fuse`` the one that rounds each operation."""
    return _results(ast.parse(expression, mode="eval").body, values, kind, fuse)


def _results(node: ast.expr, values: Mapping[str, float], kind: str, fuse: bool) -> set[float]:
    if isinstance(node, ast.Name):
        return {values[node.id]}
    assert isinstance(node, ast.BinOp)
    left, right = _results(node.left, values, kind, fuse), _results(node.right, values, kind, fuse)
    found = {_operate(node.op, a, b, kind) for a, b in itertools.product(left, right)}
    if fuse and isinstance(node.op, ast.Add | ast.Sub):
        sign = -1.0 if isinstance(node.op, ast.Sub) else 1.0
        for a, b in _factors(node.left, values, kind):
            found.update(fused(a, b, sign * c, kind) for c in right)
        for a, b in _factors(node.right, values, kind):
            found.update(fused(sign * a, b, c, kind) for c in left)
    if len(found) > MOST:
        raise TooMany
    return found


def _factors(node: ast.expr, values: Mapping[str, float], kind: str) -> list[tuple[float, float]]:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return []
    left, right = (_results(side, values, kind, True) for side in (node.left, node.right))
    return list(itertools.product(left, right))


def _operate(operator: ast.operator, a: float, b: float, kind: str) -> float:
    x, y = np.dtype(kind).type(a), np.dtype(kind).type(b)
    result: Any
    with np.errstate(all="ignore"):
        match operator:
            case ast.Add():
                result = x + y
            case ast.Sub():
                result = x - y
            case ast.Mult():
                result = x * y
            case _:
                result = x / y
    return float(result)
