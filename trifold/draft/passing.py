"""What is passed: the arguments of a call at their positions, the indices of an element, and the numbers that are
stored in one."""

from __future__ import annotations

from collections.abc import Iterable

from numba import cuda, types

from trifold.draft import tree as t
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import Source


def bind(call: t.Call, source: Source) -> None:
    """Put arguments by name, and defaults, at their positions."""
    given = dict(zip(source.parameters, call.arguments, strict=False)) | call.keywords
    doubled = len(given) < len(call.arguments) + len(call.keywords)
    for name, value in source.defaults.items():
        given.setdefault(name, t.Constant(call.place, value))
    if doubled or set(given) != set(source.parameters):
        wanted = ", ".join(source.parameters) or "nothing"
        raise DraftError(call.place, f"{source.name} takes {wanted}", "pass these, by position or by name")
    call.arguments, call.keywords = [given[name] for name in source.parameters], {}


def parts_of(argument: t.Expr, count: int) -> list[t.Expr]:
    """The elements of a tuple that is an argument."""
    if isinstance(argument, t.TupleOf):
        return argument.elements
    parts: list[t.Expr] = []
    for number in range(count):
        index = t.Constant(argument.place, number)
        index.type = tuple(types.intp for _ in argument.type or ())
        part = t.Item(argument.place, argument, [index])
        part.type = tuple(each[number] for each in argument.type or () if isinstance(each, types.BaseTuple))
        parts.append(part)
    return parts


def indices_in(indices: list[t.Expr]) -> list[t.Expr]:
    """``p[0], p[1]`` for an index ``p`` that is a tuple of two; other indices unchanged."""
    kinds = indices[0].type if len(indices) == 1 else None
    if not kinds or not all(isinstance(each, types.BaseTuple) for each in kinds):
        return indices
    (index,) = indices
    # A call is made once. Those of cuda.grid have no effect, and are written for each dimension.
    again = isinstance(index, t.Call) and index.function is not cuda.grid
    if again or not isinstance(index, (t.Call, t.Read, t.TupleOf, t.Attribute)):
        raise DraftError(index.place, "an index that is a tuple is a variable", "assign the tuple to a variable first")
    return parts_of(index, len(kinds[0]))


def require_storable(element: Iterable[types.Type], numbers: Iterable[types.Type], place: Place) -> None:
    """Refuse to store a complex number in an element of another type, for any instance."""
    for each, number in zip(element, numbers, strict=True):
        if isinstance(number, types.Complex) and not isinstance(each, types.Complex | types.Array):
            problem = f"a {number} is not stored in an array of {each}"
            raise DraftError(place, problem, "store a part of it, or its size: z.real, abs(z)")
