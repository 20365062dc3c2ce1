"""Which arrays an expression may be, or be a part of: parameters, new arrays, and constants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from numba import types

from trifold.draft import tree as t
from trifold.draft.records import is_record


@dataclass
class Origins:
    """``arrays``: versions of parameters and of new arrays, and other expressions that create one. ``parts``: the parts
    of them that are taken in between."""

    arrays: set[t.Version | t.Expr] = field(default_factory=set)
    parts: list[t.Item] = field(default_factory=list)
    transposed: bool = False  # whether one of them is transposed in between

    @property
    def parameters(self) -> set[int]:
        return {each.parameter for each in self.arrays if isinstance(each, t.Version) and each.parameter is not None}

    @property
    def are_parameters(self) -> bool:
        return len(self.parameters) == len(self.arrays)


def origins(*expressions: t.Expr) -> Origins:
    found = Origins()
    seen: set[t.Version] = set()
    waiting = list(expressions)
    while waiting:
        match waiting.pop():
            case t.Item(base=base) as part:
                found.parts.append(part)
                waiting.append(base)
            case t.Attribute(name="T", base=base):
                found.transposed = True
                waiting.append(base)
            case t.Attribute(base=base) if is_record(base.type):
                waiting.append(base)
            case t.Choice(chosen=chosen, otherwise=otherwise):
                waiting += [chosen, otherwise]
            case t.Read(version=version):
                if version not in seen:
                    seen.add(version)
                    waiting += _values(version, found)
            case other:
                found.arrays.add(other)
    return found


def _values(version: t.Version, found: Origins) -> Iterable[t.Expr]:
    if version.is_join:
        return [t.Read(source.place, source) for source in version.sources]
    if version.value is None or isinstance(version.value, t.Call):
        found.arrays.add(version)
        return []
    return [version.value]


def meeting(function: t.Function) -> list[Origins]:
    """The origins of each expression of a function that may be one of several arrays."""
    found = [
        origins(t.Read(version.place, version))
        for version in function.versions
        if version.is_join and version.is_read and is_array(version.type)
    ]
    for statement in t.walk(function.body):
        for outer in t.expressions(statement):
            found += [
                origins(each) for each in t.walk_expression(outer) if isinstance(each, t.Choice) and is_array(each.type)
            ]
    return found


def written_with(parameters: set[int], function: t.Function) -> set[int]:
    """These parameters, which are written to, and others that the same pointer may point to: its elements are either
    all const or not."""
    found = set(parameters)
    groups = meeting(function)
    while True:
        more = {
            number
            for group in groups
            if not group.are_parameters or group.parameters & found
            for number in group.parameters
        }
        if more <= found:
            return found
        found |= more


def is_array(kind: t.Type | None) -> bool:
    return any(isinstance(each, types.Array) for each in kind or ())
