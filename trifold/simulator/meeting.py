"""What is known of the names of a function at one place, and where several places meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trifold.simulator.types_of import Type, unified


@dataclass(frozen=True)
class Variable:
    """What is known of a name at one place.

    Attributes:
        type: Numba's.
        real: the types that the value may have when the program runs.
        narrow: it is an int32, kept as an int64, as a thread's index is.
    """

    type: Type
    real: frozenset[Type]
    narrow: bool = False


Names = dict[str, Variable]


def of_type(kind: Type) -> Variable:
    """A value of this type and no other."""
    return Variable(kind, frozenset((kind,)))


UNKNOWN = of_type(None)


def merged(first: Variable, second: Variable) -> Variable:
    """What is known where a value is either of two."""
    if first == second:
        return first
    return Variable(unified(first.type, second.type), first.real | second.real, first.narrow and second.narrow)


class Flow:
    """The names at one place, or None where the place is not reached; what leaves loops is collected apart."""

    def __init__(self) -> None:
        self.breaks: list[Names] = []
        self.continues: list[Names] = []


def meet(places: Iterable[Names | None]) -> Names | None:
    """The names where these places meet; None stands for one that is not reached."""
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
