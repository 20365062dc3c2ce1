"""Kernels that differ in the type of an array's elements become one template with a parameter for it.

An op may launch a kernel twice: with a result of its arguments' type, and with one that stays in the type in which
numbers are computed. The two are written for all dtypes at once, and differ where an element is stored:
``losses[row] = T(loss)`` and ``losses[row] = loss`` become ``losses[row] = Losses(loss)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trifold.draft import cpp
from trifold.draft.functions import Written
from trifold.draft.type_names import capitalised, free_name


class _Differ(Exception):
    """The kernels differ in more than that type."""


@dataclass(frozen=True)
class _Element:
    """The name of the type in one kernel, in the other one, and in both as a template parameter."""

    first: str
    second: str
    name: str

    def both(self, a: Any, b: Any) -> Any:
        """The tree of which ``a`` and ``b`` are instances."""
        if isinstance(a, cpp.Cast) and a.to == self.first:
            operand = b.operand if isinstance(b, cpp.Cast) and b.to == self.second else b
            return dataclasses.replace(a, to=self.name, operand=self.both(a.operand, operand))
        if a == b:
            return a
        if isinstance(a, cpp.Literal) and isinstance(b, cpp.Literal) and a.value == b.value:
            return a
        if type(a) is not type(b):
            raise _Differ
        if isinstance(a, list | tuple):
            if len(a) != len(b):
                raise _Differ
            return type(a)(self.both(one, other) for one, other in zip(a, b, strict=True))
        if not dataclasses.is_dataclass(a):
            raise _Differ
        fields = {each.name: self.both(getattr(a, each.name), getattr(b, each.name)) for each in dataclasses.fields(a)}
        return dataclasses.replace(a, **fields)  # type: ignore[type-var]


def unify(first: Written, second: Written, taken: Sequence[str]) -> bool:
    """Make one kernel of two, if they differ in the type of some elements alone; both then have its function, and in
    ``given`` what its parameter is in their launches.

    Args:
        taken: names that the parameter must not have.
    """
    a, b = first.function, second.function
    element = _element(first, second, taken)
    if element is None or (a.template, a.comment, a.path) != (b.template, b.comment, b.path):
        return False
    try:
        body = element.both(a.body, b.body)
    except _Differ:
        return False
    for own, other in zip(a.parameters, b.parameters, strict=True):
        if own.type != other.type:
            own.type = own.type.replace(element.first, element.name)
    a.body = body
    if element.name not in first.given:
        a.template += f", class {element.name}"
        first.given[element.name] = element.first
    second.given[element.name] = element.second
    second.function = a
    return True


def _element(first: Written, second: Written, taken: Sequence[str]) -> _Element | None:
    """The type in which the kernels' parameters differ, named after the first array that has it."""
    a, b = first.function.parameters, second.function.parameters
    if [each.name for each in a] != [each.name for each in b] or not first.function.template:
        return None
    differing = [(one, other) for one, other in zip(a, b, strict=True) if one.type != other.type]
    kinds = {(_element_of(one.type), _element_of(other.type)) for one, other in differing}
    if len(kinds) != 1 or not all(one.type.endswith("*") and other.type.endswith("*") for one, other in differing):
        return None
    ((own, its),) = kinds
    if own in first.given:
        return _Element(own, its, own)
    return _Element(own, its, free_name(capitalised(differing[0][0].name), taken))


def _element_of(pointer: str) -> str:
    return pointer.removeprefix("const ").rstrip("*")
