"""C++ names of types that differ between a kernel's instances: template parameters, and types derived from them.

``T`` is the type of the key's elements in memory. Numbers are computed in ``C``, which is float for half types. If
elements of other arrays have other types, these are named after the first such array, ``Y`` after ``y``, and the header
defines each in terms of T: ``y_t<T>``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch
from numba import types

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.tree import Type


def element_name(dtype: torch.dtype) -> str:
    """The C++ type of an element."""
    halves = {torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}
    return halves[dtype] if dtype in halves else cpp.NAMES[v.computed((dtype,))[0]]


@dataclass
class TypeNames:
    """``key``: the dtypes that T represents; for a single one, no name is needed. ``meanings`` has the definition of
    each name other than T in terms of others; ``definitions`` the header's templates."""

    key: v.Dtypes = ()
    of_numbers: dict[Type, str] = field(default_factory=dict)
    of_elements: dict[v.Dtypes, str] = field(default_factory=dict)
    meanings: dict[str, str] = field(default_factory=dict)
    definitions: list[cpp.AliasDefinition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.of_elements[self.key] = "T"
        computed = v.computed(self.key)
        if len(set(computed)) > 1:
            self.of_numbers[computed] = "C" if _has_halves(self.key) else "T"
        self.meanings["C"] = self._number_of("T")

    @property
    def order(self) -> list[str]:
        return ["T", *self.meanings]

    def _number_of(self, name: str) -> str:
        floating = all(each.is_floating_point for each in self.key)
        return f"trifold::{'compute_t' if floating else 'number_t'}<{name}>"

    def name_elements(self, dtypes: v.Dtypes, array: str) -> None:
        """Names for the type of an array's elements, and for the type in which they are computed."""
        computed = v.computed(dtypes)
        if len(dtypes) != len(self.key) or len(set(dtypes)) == 1 or dtypes in self.of_elements:
            return
        halves = _has_halves(dtypes)
        if computed in self.of_numbers and not halves:
            return
        name = self._define("".join(word.capitalize() for word in array.split("_")), [element_name(x) for x in dtypes])
        self.of_elements[dtypes] = name
        if halves and len(set(computed)) > 1 and computed not in self.of_numbers:
            self.of_numbers[computed] = f"C{name}"
            self.meanings[f"C{name}"] = self._number_of(name)
        elif not halves:
            self.of_numbers[computed] = name

    def of_number(self, kind: Type) -> str | None:
        """The name of a type of numbers; None: it has none."""
        plain = all(isinstance(each, types.Integer | types.Float) and each in cpp.NAMES for each in kind)
        if kind not in self.of_numbers and plain and len(kind) == len(self.key) and types.float16 not in kind:
            self.of_numbers[kind] = self._define("Number", [cpp.NAMES[each] for each in kind])
        return self.of_numbers.get(kind)

    def _define(self, name: str, wanted: list[str]) -> str:
        """A name for these types, one for each dtype of the key."""
        widest = ["double" if each.is_floating_point else "int64_t" for each in self.key]
        name, number = "Wide" if wanted == widest else name, 2
        own = name
        while own in self.order:
            own, number = f"{name}{number}", number + 1
        alias = f"{re.sub('(?<!^)(?=[A-Z])', '_', own).lower()}_t"
        self.definitions.append(cpp.AliasDefinition(alias, self._chosen(wanted)))
        self.meanings[own] = f"{alias}<T>"
        return own

    def _chosen(self, wanted: list[str]) -> str:
        """An expression in T for these types, one for each dtype of the key."""
        whole = self._plain(wanted, range(len(self.key)))
        if whole is not None:
            return whole
        floats = [n for n, each in enumerate(self.key) if each.is_floating_point]
        integers = [n for n in range(len(self.key)) if n not in floats]
        parts = [self._plain(wanted, each) for each in (integers, floats)]
        if None not in parts:
            return f"std::conditional_t<std::is_integral_v<T>, {parts[0]}, {parts[1]}>"
        *others, last = dict.fromkeys(wanted)
        text = last
        for other in reversed(others):
            keys = [element_name(key) for key, each in zip(self.key, wanted, strict=True) if each == other]
            test = " || ".join(f"std::is_same_v<T, {key}>" for key in keys)
            text = f"std::conditional_t<{test}, {other}, {text}>"
        return text

    def _plain(self, wanted: list[str], places: range | list[int]) -> str | None:
        """The same without a condition, for some of the key's dtypes; None: there is none."""
        own = {wanted[n] for n in places}
        if len(own) == 1:
            return own.pop()
        if all(wanted[n] == element_name(self.key[n]) for n in places):
            return "T"
        computed = {n: "double" if self.key[n] == torch.float64 else "float" for n in places}
        return "trifold::compute_t<T>" if all(wanted[n] == computed[n] for n in places) else None

    # --------------------------------------------------------------------------------------------- templates

    def parameters(self, used: set[str], is_kernel: bool) -> tuple[list[str], dict[str, str]]:
        """The template parameters of a function that uses these names, and the definitions of the other names. A
        kernel's parameter is T, from which all others are derived; or C, if it uses nothing else."""
        used = used | ({"T"} if is_kernel and used - {"C"} else set())
        derived: dict[str, str] = {}
        for name in self.order:
            text = self._derived(name, used) if name in used else None
            if text is not None:
                derived[name] = text
        return [name for name in self.order if name in used and name not in derived], derived

    def _derived(self, name: str, used: set[str]) -> str | None:
        """The definition of a name in terms of other names that are used."""
        if name == "T":
            return None
        text = self.meanings[name]
        while True:
            unknown = [each for each in self.order if each not in used and re.search(rf"\b{each}\b", text)]
            if "T" in unknown:
                return None
            if not unknown:
                return text
            text = replaced(text, {each: self.meanings[each] for each in unknown})


def replaced(text: str, meanings: dict[str, str]) -> str:
    """A type's text, with each of these names replaced by its definition."""
    for name, meaning in reversed(meanings.items()):
        text = re.sub(rf"\b{name}\b", meaning, text)
    return text


def _has_halves(dtypes: v.Dtypes) -> bool:
    return any(each in v.HALF for each in dtypes)
