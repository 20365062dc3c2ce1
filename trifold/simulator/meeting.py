"""The facts known about a function's names at one place, and their union where paths meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trifold.simulator.types_of import Type, unified


@dataclass(frozen=True)
class Variable:
    """The facts known about a name at one place.

    Attributes:
        type: Numba's.
        real: the types that the value may have when the program runs.
        narrow: it is an int32 stored as an int64, such as a thread's index.
    """

    type: Type
    real: frozenset[Type]
    narrow: bool = False


Names = dict[str, Variable]


def of_type(kind: Type) -> Variable:
    """A value of exactly this type."""
    return Variable(kind, frozenset((kind,)))


UNKNOWN = of_type(None)


def merged(first: Variable, second: Variable) -> Variable:
    """The facts known about a value that is one of two."""
    if first == second:
        return first
    return Variable(unified(first.type, second.type), first.real | second.real, first.narrow and second.narrow)


class Flow:
    """The names at one place, or None if it is unreachable; states that leave loops are collected separately."""

    def __init__(self) -> None:
        self.breaks: list[Names] = []
        self.continues: list[Names] = []


def meet(places: Iterable[Names | None]) -> Names | None:
    """The names where these places meet; None stands for one that is unreachable."""
    result: Names | None = None
    for place in places:
        if place is None:
            continue
        if result is None:
            result = dict(place)
            continue
        for name, variable in place.items():
            result[name] = merged(result[name], variable) if name in result else variable
    return result
