"""Operator schemas that a port's C++ functions support, and their types in each language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from trifold.new.signature import SignatureError, check_count, check_name, parsed_schema

# For each type: Python, C++, and a strategy that draws one, where `x` draws tensors.
_TYPES = {
    "Tensor": ("Tensor", "Tensor", "x"),
    "int": ("int", "int64_t", "st.sampled_from((3, -2))"),
    "float": ("float", "double", "st.sampled_from((0.5, -3.0))"),
    "bool": ("bool", "bool", "st.booleans()"),
    "str": ("str", "std::string", 'st.sampled_from(("", "täglich"))'),
    "ScalarType": ("torch.dtype", "trifold::ScalarType", "st.sampled_from((torch.float16, torch.int64))"),
    "Device": ("torch.device", "trifold::Device", 'st.just(torch.device("cpu"))'),
}
# Names with another meaning in the generated files.
_TAKEN = frozenset(("add", "buffer", "factor", "first", "given", "limits", "name", "results", "sums", "written", "x_"))


@dataclass(frozen=True)
class Type:
    """A type of a schema: ``base``, possibly in a list, each with or without None.

    Attributes:
        element_optional: an element of a list, or the value itself if it is not a list, may be None.
        length: of a list of fixed length, as in ``int[2]``.
    """

    base: str
    element_optional: bool = False
    is_list: bool = False
    list_optional: bool = False
    length: int | None = None

    @property
    def is_tensor(self) -> bool:
        return self.base == "Tensor"

    @property
    def schema(self) -> str:
        listed = f"[{self.length or ''}]" if self.is_list else ""
        return f"{self.base}{'?' * self.element_optional}{listed}{'?' * self.list_optional}"

    @property
    def python(self) -> str:
        text = _TYPES[self.base][0] + " | None" * self.element_optional
        return (f"Sequence[{text}]" if self.is_list else text) + " | None" * self.list_optional

    @property
    def cpp(self) -> str:
        """As a value."""
        text = _TYPES[self.base][1]
        text = f"std::optional<{text}>" if self.element_optional else text
        text = f"std::vector<{text}>" if self.is_list else text
        return f"std::optional<{text}>" if self.list_optional else text

    @property
    def strategy(self) -> str:
        text = _TYPES[self.base][2]
        text = f"st.none() | {text}" if self.element_optional else text
        if self.is_list:
            text = f"st.lists({text}, {self._sizes})"
        return f"st.none() | {text}" if self.list_optional else text

    @property
    def _sizes(self) -> str:
        return "max_size=3" if self.length is None else f"min_size={self.length}, max_size={self.length}"


@dataclass(frozen=True)
class Argument:
    """An argument.

    Attributes:
        alias: the letter of ``Tensor(a!)``: the op writes into it.
        default: as Python text; None if there is none.
    """

    type: Type
    name: str
    alias: str = ""
    default: str | None = None
    keyword_only: bool = False

    @property
    def schema(self) -> str:
        kind = self.type.schema
        return f"{f'Tensor({self.alias}!)' if self.alias else kind} {self.name}"

    @property
    def python(self) -> str:
        return f"{self.name}: {self.type.python}"

    @property
    def cpp(self) -> str:
        plain = self.type in (Type("int"), Type("float"), Type("bool"), Type("ScalarType"), Type("Device"))
        return f"{self.type.cpp} {self.name}" if plain else f"const {self.type.cpp}& {self.name}"


@dataclass(frozen=True)
class Operator:
    """The schema of a whole op."""

    arguments: tuple[Argument, ...]
    results: tuple[Type, ...]

    @property
    def tensors(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if each.type.is_tensor)

    @property
    def others(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if not each.type.is_tensor)

    @property
    def written(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if each.alias)

    @property
    def first(self) -> Argument:
        """Determines the results' shape, dtype and device: a tensor, or a list that must not be empty."""
        certain = [each for each in self.tensors if not each.type.element_optional and not each.type.list_optional]
        return min(certain, key=lambda each: each.type.is_list)


def parse(text: str, op: str) -> Operator:
    """Read a signature in torch's schema language.

    Raises:
        SignatureError: it is not one, or has an unsupported type; the remedy says what to do.
    """
    parsed = parsed_schema(text, op)
    arguments = tuple(_argument(each) for each in parsed.arguments)
    operator = Operator(arguments, tuple(_result(each) for each in parsed.returns))
    _check(operator, op)
    return operator


def _argument(argument: Any) -> Argument:
    name = str(argument.name)
    alias = argument.alias_info
    if alias is not None and not alias.is_write:
        raise SignatureError(
            f"--signature: a view of {name} is returned, '(a)'", "generate a new Tensor; docs/spec.md has views"
        )
    kind = _type(argument.real_type, argument.N, name)
    letter = next(iter(alias.before_set), "a") if alias is not None else ""
    if letter and kind != Type("Tensor"):
        raise SignatureError(
            f"--signature: {name} is a {kind.schema} that is written",
            f"generate files for one tensor, 'Tensor({letter}!) {name}', and change them: schemas, bindings and "
            "Spec(writes=...) take lists, too",
        )
    default = None
    if argument.has_default_value():
        value = argument.default_value
        if kind.base in ("ScalarType", "Device") and value is not None:
            raise SignatureError(f"--signature: {name} has a default", f"remove it, or declare '{kind.base}?'")
        shown = repr(tuple(value) if isinstance(value, list) else value)
        default = f'"{value}"' if isinstance(value, str) and '"' not in value else shown
    return Argument(kind, name, letter, default, bool(argument.kwarg_only))


def _result(result: Any) -> Type:
    kind = _type(result.real_type, None, "a result")
    if not kind.is_tensor:
        raise SignatureError(
            f"--signature: a result is a {kind.schema}, and trifold verify compares tensors alone",
            "return a Tensor, of shape () for a number",
        )
    if result.alias_info is not None:
        raise SignatureError(
            "--signature: a result is an argument, '(a)', and torch.compile does not support such an operator",
            "return nothing where the op writes into an argument: '(Tensor(a!) x) -> ()'",
        )
    return kind


def _type(kind: Any, length: int | None, name: str) -> Type:
    text = _spelled(kind)
    found = re.fullmatch(rf"({'|'.join(_TYPES)})(\?)?(\[\])?(\?)?", text)
    if found is None:
        raise SignatureError(
            f"--signature: {name} is a {text}, which C++ functions here cannot have",
            f"use {', '.join(_TYPES)}, each also as T?, T[] and T[]?; a float for a Scalar, a seed for a Generator",
        )
    base, optional, listed, list_optional = found.groups()
    return Type(base, bool(optional), bool(listed), bool(list_optional), length)


def _spelled(kind: Any) -> str:
    text = str(kind)
    if text.startswith("Optional["):
        return f"{_spelled(kind.getElementType())}?"
    if text.startswith("List["):
        return f"{_spelled(kind.getElementType())}[]"
    return {"number": "Scalar"}.get(text, text)


def _check(operator: Operator, op: str) -> None:
    certain = [each for each in operator.tensors if not each.type.element_optional and not each.type.list_optional]
    if not certain:
        raise SignatureError(
            "--signature: no argument is certain to be a tensor, which decides shape, dtype and device",
            "begin with 'Tensor x', or 'Tensor[] xs'",
        )
    if not operator.results and not operator.written:
        raise SignatureError(
            "--signature: the op returns nothing and writes nothing", "end it with '-> Tensor', or write 'Tensor(a!) x'"
        )
    if operator.written and any(kind.is_list for kind in operator.results):
        raise SignatureError(
            "--signature: torch.compile does not support a returned list together with an argument that is written",
            "return Tensors",
        )
    check_count([each.name for each in operator.arguments])
    for each in operator.arguments:
        check_name(each.name, op)
        # torch functionalises an operator that writes through a function with a parameter `mode`.
        if each.name in _TAKEN or (each.name == "mode" and operator.written):
            raise SignatureError(
                f"--signature: an argument is called '{each.name}', which the generated files call something else",
                "give it another name",
            )
