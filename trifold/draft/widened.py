"""Where a kernel computes in float64 with float32 numbers: by Numba's rules the other operand makes it so, if it is an
integer or a constant such as ``0.5``. A GPU computes float64 at half the rate of float32 at best, many at 1/64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from numba import types

from trifold.draft import tree as t


def widened(function: t.Function) -> Iterator[str]:
    """A remark for each such operation of a kernel, and of the device functions that it calls."""
    for each in _with_callees(function, set()):
        for statement in t.walk(each.body):
            for outer in t.expressions(statement):
                for expression in t.walk_expression(outer):
                    if isinstance(expression, t.Binary):
                        yield from _remarks(expression)


def _with_callees(function: t.Function, seen: set[int]) -> Iterator[t.Function]:
    if id(function) not in seen:
        seen.add(id(function))
        yield function
        for callee in function.callees:
            yield from _with_callees(callee, seen)


def _remarks(operation: t.Binary) -> Iterator[str]:
    orders = [(operation.left, operation.right), (operation.right, operation.left)]
    for narrow, other in orders[: 1 if operation.in_place else 2]:  # total += x: float64 is meant
        instances = zip(operation.type or (), narrow.type or (), other.type or (), strict=False)
        found = next((wide for result, own, wide in instances if (result, own) == (types.float64, types.float32)), None)
        constant = _constant(other)
        if found is None or found == types.float32 or not (constant or isinstance(found, types.Integer)):
            continue
        text = constant or (other.version.name if isinstance(other, t.Read) else "")
        why = f"since {text or 'one operand'} is {'an' if isinstance(found, types.Integer) else 'a'} {found}"
        remedy = f"numpy.float32({text})" if text else "numpy.float32(…)"
        place = operation.place
        yield f"{Path(place.path).name}:{place.line}: computed in float64, {why}; for float32, write {remedy}"


def _constant(expression: t.Expr) -> str:
    """The text of a constant, or of a variable that is one; "": it is none."""
    if isinstance(expression, t.Constant):
        return expression.name or expression.text or str(expression.value)
    if isinstance(expression, t.Read) and isinstance(expression.version.value, t.Constant):
        return expression.version.name
    return ""
