"""Records: elements of arrays of a structured dtype, which become structs with the same layout."""

from __future__ import annotations

import math
from typing import Any

from numba import types

from trifold.draft import cpp
from trifold.draft.refusal import DraftError, Place
from trifold.draft.variables import KEYWORDS

# Names that are attributes of arrays and complex numbers.
_TAKEN = frozenset({"shape", "size", "ndim", "dtype", "real", "imag", "laneid"}) | KEYWORDS


def is_record(kind: tuple[types.Type, ...] | None) -> bool:
    return any(isinstance(each, types.Record) for each in kind or ())


def member_type(record: types.Type, name: str, place: Place) -> types.Type:
    """The type of a field.

    Raises:
        DraftError: there is no such field, or no struct of C++ has the record's layout.
    """
    if not isinstance(record, types.Record):
        raise DraftError(place, f"{record} has no fields that can be assigned", "assign an element of an array")
    if name not in record.fields:
        raise DraftError(place, f"the record has no field {name}", f"its fields are {', '.join(record.fields)}")
    problem = _problem(record)
    if problem is not None:
        raise DraftError(place, *problem)
    kind: types.Type = record.typeof(name)
    return kind


def _problem(record: types.Record) -> tuple[str, str] | None:
    """The reason why no struct has the layout of a record, and the remedy; None: one has."""
    end, widest = 0, 1
    for name, own in record.fields.items():
        number, shape = _number_and_shape(own.type)
        if not isinstance(number, types.Integer | types.Float | types.Boolean) or number == types.float16:
            return f"a field of {own.type} is not translated", "use fields of numbers, or of arrays of numbers"
        if not name.isidentifier() or not name.isascii() or name in _TAKEN:
            return f"a field cannot be called {name} here", "give it another name"
        width = max(number.bitwidth // 8, 1) if not isinstance(number, types.Boolean) else 1
        end, widest = end + -end % width, max(widest, width)
        if own.offset != end:
            return "a record without the alignment of C++ is not translated", "make its dtype with align=True"
        end += width * math.prod(shape)
    if record.size != end + -end % widest:
        return "a record without the alignment of C++ is not translated", "make its dtype with align=True"
    return None


def _number_and_shape(field: types.Type) -> tuple[types.Type, tuple[int, ...]]:
    """The type of a field's numbers, and the lengths of its array; none if it is a number."""
    return (field.dtype, field.shape) if isinstance(field, types.NestedArray) else (field, ())


def _member(field: types.Type, name: str) -> tuple[str, str]:
    """The type and the declarator of a field in C++."""
    number, shape = _number_and_shape(field)
    return cpp.NAMES[number], name + "".join(f"[{length}]" for length in shape)


class Records:
    """The structs of a text."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}

    def name(self, record: types.Record) -> str:
        """The name of a record's struct; the first is called Record."""
        if record not in self._names:
            count = len(self._names) + 1
            self._names[record] = "Record" if count == 1 else f"Record{count}"
        return self._names[record]

    def definitions(self, text: str) -> list[cpp.Part]:
        """The definitions of the structs that a text uses."""
        found: list[cpp.Part] = []
        for record, name in self._names.items():
            if name not in text:
                continue
            members = [_member(own.type, field) for field, own in record.fields.items()]
            found.append(cpp.Struct(name, "", members))
            last, own = list(record.fields.items())[-1]
            found.append(cpp.Assertion(f"sizeof({name}) == {record.size} && offsetof({name}, {last}) == {own.offset}"))
        return found
