"""Operators as torch's schema language states them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch


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
        """Raises ``ValueError`` if torch would not accept ``text`` as a schema.

        >>> Schema.parse("f(Tensor x, int[] sizes, str? mode=None) -> Tensor[]").types
        '(Tensor, int[], str?) -> Tensor[]'
        """
        try:
            parsed = torch._C.parse_schema(f"trifold::{text}")
        except RuntimeError as error:
            raise ValueError(f"'{text}' is not a schema: {error}") from None
        body = re.match(r"\s*(\w+)\s*\(", text)
        assert body is not None
        return cls(
            text,
            body[1],
            tuple((_type_name(argument.real_type), argument.name) for argument in parsed.arguments),
            tuple(_type_name(value.real_type) for value in parsed.returns),
            tuple(i for i, argument in enumerate(parsed.arguments) if _is_written(argument)),
            tuple(argument.name for argument in parsed.arguments if argument.kwarg_only),
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


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _type_name(kind: Any) -> str:
    text = str(kind)
    if text.startswith("Optional["):
        return f"{_type_name(kind.getElementType())}?"
    if text.startswith("List["):
        return f"{_type_name(kind.getElementType())}[]"
    return {"number": "Scalar"}.get(text, text)
