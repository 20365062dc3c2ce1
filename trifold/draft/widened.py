"""Where a kernel computes in float64 with float32 numbers: by Numba's rules the other operand makes it so, if it is an
integer, a constant such as ``0.5``, or an argument that is a float. A GPU computes float64 at half the rate of float32
at best, many at 1/64."""

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
                        yield from _remarks(expression, each.parameters if each.is_kernel else [])


def _with_callees(function: t.Function, seen: set[int]) -> Iterator[t.Function]:
    if id(function) not in seen:
        seen.add(id(function))
        yield function
        for callee in function.callees:
            yield from _with_callees(callee, seen)


def _remarks(operation: t.Binary, arguments: list[t.Version]) -> Iterator[str]:
    orders = [(operation.left, operation.right), (operation.right, operation.left)]
    for narrow, other in orders[: 1 if operation.in_place else 2]:  # total += x: float64 is meant
        instances = zip(operation.type or (), narrow.type or (), other.type or (), strict=False)
        found = next((wide for result, own, wide in instances if (result, own) == (types.float64, types.float32)), None)
        is_integer = isinstance(found, types.Integer)
        if not is_integer and (found != types.float64 or not _is_scalar(other, arguments)):
            continue
        text = _name(other)
        why = f"since {text or 'an operand'} is {'an' if is_integer else 'a'} {found}"
        place = operation.place
        remedy = f"numpy.float32({text or '…'})"
        yield f"{Path(place.path).name}:{place.line}: computed in float64, {why}; for float32, write {remedy}"


def _is_scalar(expression: t.Expr, arguments: list[t.Version]) -> bool:
    """Whether it consists of constants and of the kernel's arguments that are numbers."""
    match expression:
        case t.Constant():
            return True
        case t.Read(version=version) if version in arguments:
            return True
        case t.Read(version=version) if version.value is not None:
            return _is_scalar(version.value, arguments)
        case t.Unary() | t.Binary():
            return all(_is_scalar(each, arguments) for each in expression.children())
    return False


def _name(expression: t.Expr) -> str:
    """A name or constant as it is written; "" of other expressions."""
    match expression:
        case t.Constant():
            return expression.name or expression.text or str(expression.value)
        case t.Read():
            return expression.version.name
    return ""
