"""C++ names of types that differ between a kernel's instances: template parameters, and types derived from them.

``T`` is the type of the key's elements, as it is stored. Numbers are computed in ``C``, float for half types. Another
tensor whose dtype does not follow from the key's has a parameter of its own: ``Index``, the type of ``index``. Where
the elements of other arrays are of other types, those are named after the first such array, ``Y`` after ``y``, and the
header defines each in terms of the parameters: ``y_t<T>``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

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
    """Of kernels that have an instance for each dtype of ``key``, or for each combination of one of them with one of
    each of ``others``; the key changes slowest.

    ``key``: its dtypes; of one dtype there is nothing to name. ``others``: for each further template parameter the
    array that it is named after, and its dtypes. T is the key's element type; where the key, the kernel's
    ``key_array``, has integers, and another one is floating, that one's.

    ``meanings`` has, for each name that is no parameter, what it is in terms of others; ``definitions`` the header's
    templates, which all kernels of a file share.
    """

    key: v.Dtypes = ()
    others: tuple[tuple[str, v.Dtypes], ...] = ()
    key_array: str = ""
    definitions: list[cpp.AliasDefinition] = field(default_factory=list)
    of_numbers: dict[Type, str] = field(default_factory=dict)
    of_elements: dict[v.Dtypes, str] = field(default_factory=dict)
    meanings: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, v.Dtypes] = field(default_factory=dict)  # the dtype of each in each instance

    def __post_init__(self) -> None:
        wanted = [(self.key_array, self.key), *self.others]
        floating = [n for n, (_, dtypes) in enumerate(wanted) if dtypes and dtypes[0].is_floating_point]
        main = floating[0] if floating else 0
        names: list[str] = []
        for n, (array, _) in enumerate(wanted):
            # An array's own name may be that of a type.
            names.append("T" if n == main else free_name(capitalised(array), [*names, "T", "C", array]))
        instances = list(product(*(dtypes for _, dtypes in wanted)))
        self.meanings["C"] = self._number_of("T", wanted[main][1])
        for name, dtypes in zip(names, zip(*instances, strict=True), strict=False):
            computed = v.computed(dtypes)
            self.parameters[name], self.of_elements[dtypes] = dtypes, name
            number = "C" if name == "T" else f"C{name}"
            if len(set(computed)) > 1:
                self.of_numbers[computed] = number if _has_halves(dtypes) else name
                self.meanings[number] = self._number_of(name, dtypes)

    @property
    def instances(self) -> int:
        return max(1, len(self.parameters.get("T", ())))

    @property
    def key_name(self) -> str:
        return next(iter(self.parameters), "T")

    @property
    def order(self) -> list[str]:
        return [*self.parameters, *self.meanings]

    def expanded(self, of_key: Sequence[Any]) -> tuple[Any, ...]:
        """Values that are known for each dtype of the key, or one for all, repeated for each instance."""
        turns = self.instances // len(of_key)
        return tuple(each for each in of_key for _ in range(turns))

    def _number_of(self, name: str, dtypes: v.Dtypes) -> str:
        floating = all(each.is_floating_point for each in dtypes)
        return f"trifold::{'compute_t' if floating else 'number_t'}<{name}>"

    def name_elements(self, dtypes: v.Dtypes, array: str) -> None:
        """Names for the type of an array's elements, and for the type in which they are computed."""
        computed = v.computed(dtypes)
        if len(dtypes) != self.instances or len(set(dtypes)) == 1 or dtypes in self.of_elements:
            return
        halves = _has_halves(dtypes)
        if computed in self.of_numbers and not halves:
            return
        name = self._define(capitalised(array), [element_name(each) for each in dtypes])
        self.of_elements[dtypes] = name
        if halves and len(set(computed)) > 1 and computed not in self.of_numbers:
            self.of_numbers[computed] = f"C{name}"
            self.meanings[f"C{name}"] = self._number_of(name, dtypes)
        elif not halves:
            self.of_numbers[computed] = name

    def of_number(self, kind: Type) -> str | None:
        """The name of a type of numbers; None: it has none."""
        plain = all(isinstance(each, types.Integer | types.Float) and each in cpp.NAMES for each in kind)
        if kind not in self.of_numbers and plain and len(kind) == self.instances and types.float16 not in kind:
            self.of_numbers[kind] = self._define("Number", [cpp.NAMES[each] for each in kind])
        return self.of_numbers.get(kind)

    def _define(self, wanted: str, kinds: list[str]) -> str:
        """A name for these types, one for each instance."""
        widest = ["double" if each.is_floating_point else "int64_t" for each in self.parameters["T"]]
        value = _chosen(kinds, self.parameters)
        over = [name for name in self.parameters if re.search(rf"\b{name}\b", value)]
        made = cpp.AliasDefinition("", value, over)
        name, number = "Wide" if kinds == widest else wanted, 2
        own = name
        while own in self.order or not self._fits(made, own):
            own, number = f"{name}{number}", number + 1
        if made not in self.definitions:
            self.definitions.append(made)
        self.meanings[own] = f"{made.name}<{', '.join(over)}>"
        return own

    def _fits(self, made: cpp.AliasDefinition, own: str) -> bool:
        """Whether the name of this type's template is free in the header."""
        made.name = f"{re.sub('(?<!^)(?=[A-Z])', '_', own).lower()}_t"
        return all(each == made for each in self.definitions if each.name == made.name)

    # --------------------------------------------------------------------------------------------- templates

    def template(self, used: set[str], is_kernel: bool) -> tuple[list[str], dict[str, str]]:
        """The template parameters of a function that uses these names, and the definitions of its other names.

        A kernel's are those from which all others follow; or C alone, if it uses nothing else.
        """
        if is_kernel and used - {"C"}:
            used = used | {name for each in used for name in self.made_of(each)}
        derived: dict[str, str] = {}
        for name in self.order:
            text = self._derived(name, used) if name in used else None
            if text is not None:
                derived[name] = text
        return [name for name in self.order if name in used and name not in derived], derived

    def made_of(self, name: str) -> set[str]:
        """The parameters in terms of which a name is defined."""
        if name not in self.meanings:
            return {name}
        return {p for each in self.order if re.search(rf"\b{each}\b", self.meanings[name]) for p in self.made_of(each)}

    def _derived(self, name: str, used: set[str]) -> str | None:
        """The definition of a name in terms of other names that are used."""
        if name in self.parameters:
            return None
        text = self.meanings[name]
        while True:
            unknown = [each for each in self.order if each not in used and re.search(rf"\b{each}\b", text)]
            if any(each in self.parameters for each in unknown):
                return None
            if not unknown:
                return text
            text = replaced(text, {each: self.meanings[each] for each in unknown})


def _chosen(wanted: Sequence[str], parameters: dict[str, v.Dtypes]) -> str:
    """An expression in these parameters of types, one for each instance."""
    for name, keys in parameters.items():
        pairs = dict(zip(keys, wanted, strict=True))
        if all(pairs[key] == each for key, each in zip(keys, wanted, strict=True)):
            return _chosen_by(name, list(pairs), list(pairs.values()))
    for name in parameters:
        fewer = {each: own for each, own in parameters.items() if each != name}
        rows = list(zip(*fewer.values(), strict=True))
        if len({*zip(rows, wanted, strict=True)}) == len(set(rows)):  # the result does not depend on this parameter
            return _chosen(wanted, fewer)
    columns = list(zip(*(v.computed(keys) for keys in parameters.values()), strict=True))
    floating = all(each in (types.float32, types.float64) for column in columns for each in column)
    if floating and list(wanted) == ["double" if types.float64 in column else "float" for column in columns]:
        return f"std::common_type_t<{', '.join(f'trifold::compute_t<{name}>' for name in parameters)}>"
    (first, keys), *others = parameters.items()
    choices: dict[str, list[torch.dtype]] = {}
    for dtype in dict.fromkeys(keys):
        places = [n for n, each in enumerate(keys) if each == dtype]
        rest = {name: tuple(own[n] for n in places) for name, own in others}
        choices.setdefault(_chosen([wanted[n] for n in places], rest), []).append(dtype)
    return _conditional(first, choices)


def _chosen_by(name: str, keys: list[torch.dtype], wanted: list[str]) -> str:
    """An expression in one parameter of types, one for each of its dtypes."""
    whole = _plain(name, keys, wanted)
    if whole is not None:
        return whole
    is_float = [each.is_floating_point for each in keys]
    if len(set(is_float)) == 2:
        places = [[n for n, each in enumerate(is_float) if each == wanted_one] for wanted_one in (False, True)]
        parts = [_plain(name, [keys[n] for n in each], [wanted[n] for n in each]) for each in places]
        if None not in parts:
            return f"std::conditional_t<std::is_integral_v<{name}>, {parts[0]}, {parts[1]}>"
    choices: dict[str, list[torch.dtype]] = {}
    for key, each in zip(keys, wanted, strict=True):
        choices.setdefault(each, []).append(key)
    return _conditional(name, choices)


def _conditional(name: str, choices: dict[str, list[torch.dtype]]) -> str:
    """A conditional type: one of these texts if the parameter is one of the dtypes."""
    *tested, (text, _) = choices.items()
    for choice, dtypes in reversed(tested):
        test = " || ".join(f"std::is_same_v<{name}, {element_name(each)}>" for each in dtypes)
        text = f"std::conditional_t<{test}, {choice}, {text}>"
    return text


def _plain(name: str, keys: Sequence[torch.dtype], wanted: Sequence[str]) -> str | None:
    """The same without a condition; None: there is no such expression."""
    if len(set(wanted)) == 1:
        return wanted[0]
    if all(each == element_name(key) for key, each in zip(keys, wanted, strict=True)):
        return name
    computed = ["double" if key == torch.float64 else "float" for key in keys]
    return f"trifold::compute_t<{name}>" if computed == list(wanted) else None


def replaced(text: str, meanings: dict[str, str]) -> str:
    """A type's text, with each of these names replaced by its definition."""
    for name, meaning in reversed(meanings.items()):
        text = re.sub(rf"\b{name}\b", meaning, text)
    return text


def _has_halves(dtypes: v.Dtypes) -> bool:
    return any(each in v.HALF for each in dtypes)


def capitalised(name: str) -> str:
    """The name of a type, from that of an array: ``GradX`` from ``grad_x``."""
    return "".join(word.capitalize() for word in name.split("_"))


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """``wanted``, with a number if it is taken."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}{number}", number + 1
    return name
