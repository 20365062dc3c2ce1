"""Operators as torch's schema language states them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Schema:
    """A parsed operator schema such as ``add(Tensor x, Tensor y) -> Tensor``.

    Attributes:
        text: as it was written.
        name: of the operator.
        arguments: type and name of each. Types are spelled as in the schema, without alias annotations: ``Tensor(a!)``
            is ``Tensor``.
        results: the type of each.
        written: positions of the arguments that the operator writes into.
        keywords: names of the arguments after ``*``.
    """

    text: str
    name: str
    arguments: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    written: tuple[int, ...] = ()
    keywords: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Raises ``ValueError`` if ``text`` does not have the form of a schema; torch judges its types where it is
        defined.

        >>> Schema.parse("f(Tensor x, int[] sizes, str? mode=None) -> Tensor[]").types
        '(Tensor, int[], str?) -> Tensor[]'
        """
        whole = _WHOLE.fullmatch(text)
        if whole is None:
            raise ValueError(f"'{text}' is not a schema: write name(Type argument, ...) -> Type")
        arguments, keywords = [], False
        for part in _split(whole["arguments"]):
            if part == "*":
                keywords = True
                continue
            argument = _ARGUMENT.fullmatch(part)
            if argument is None:
                raise ValueError(f"'{text}' is not a schema: '{part}' is not a type and name of an argument")
            arguments.append((argument["type"], argument["name"], keywords))
        several = _SEVERAL.fullmatch(whole["results"])
        results = _split(several["results"]) if several else [whole["results"]]
        return cls(
            text,
            whole["name"],
            tuple((_type_name(kind), name) for kind, name, _ in arguments),
            tuple(_type_name(result.split()[0]) for result in results),
            tuple(i for i, (kind, _, _) in enumerate(arguments) if "!" in kind),
            tuple(name for _, name, keyword in arguments if keyword),
        )

    @property
    def returns(self) -> str:
        """The results as one string: ``Tensor``, ``(Tensor, int)``, or ``()`` if there are none."""
        return self.results[0] if len(self.results) == 1 else f"({', '.join(self.results)})"

    @property
    def types(self) -> str:
        """The types alone, as the C++ side spells them: ``(Tensor, Tensor) -> Tensor``."""
        return f"({', '.join(kind for kind, _ in self.arguments)}) -> {self.returns}"

    @property
    def tensor_positions(self) -> tuple[int, ...]:
        """The arguments that are one tensor, or None."""
        return tuple(i for i, (kind, _) in enumerate(self.arguments) if kind in ("Tensor", "Tensor?"))

    @property
    def list_positions(self) -> tuple[int, ...]:
        """The arguments that are lists of tensors, or None."""
        return tuple(i for i, (kind, _) in enumerate(self.arguments) if is_tensor_list(kind))


def is_tensor_list(kind: str) -> bool:
    """Whether a type is a list of tensors, of which some may be None, or None."""
    return kind.rstrip("?") in ("Tensor[]", "Tensor?[]")


_WHOLE = re.compile(r"\s*(?P<name>\w+)\s*\((?P<arguments>.*)\)\s*->\s*(?P<results>\S.*?)\s*", re.DOTALL)
_SEVERAL = re.compile(r"\((?P<results>.*)\)", re.DOTALL)
_ARGUMENT = re.compile(r"(?P<type>\w+(?:\([^()]*\)|\[\d*\]|\?)*)\s+(?P<name>\w+)\s*(?:=.*)?", re.DOTALL)
_STRING = re.compile(r"'[^']*'|\"[^\"]*\"")


def _split(text: str) -> list[str]:
    """The parts between commas, of which those in strings and in brackets are none."""
    parts, depth, begin = [], 0, 0
    hidden = _STRING.sub(lambda string: " " * len(string[0]), text)
    for i, character in enumerate(hidden):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in (*parts, text[begin:]) if part.strip()]


def _type_name(text: str) -> str:
    """As C++ spells it: without alias annotations and sizes of lists; a SymInt is an int."""
    return re.sub(r"\[\d+\]", "[]", re.sub(r"\([^()]*\)", "", text)).replace("SymInt", "int")
