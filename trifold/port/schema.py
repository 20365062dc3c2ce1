"""Operators as torch's schema language states them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Schema:
    """A parsed operator schema such as ``add(Tensor x, Tensor y) -> Tensor``."""

    text: str
    name: str
    arguments: tuple[tuple[str, str], ...]  # (type, name)
    returns: str

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Raises ``ValueError`` where torch would not accept ``text`` as a schema."""
        try:
            parsed = torch._C.parse_schema(f"trifold::{text}")
        except RuntimeError as error:
            raise ValueError(f"'{text}' is not a schema: {error}") from None
        body = re.fullmatch(r"\s*(\w+)\s*\(.*\)\s*->\s*(.*?)\s*", text, re.DOTALL)
        assert body is not None
        arguments = tuple((_type_name(argument.type), argument.name) for argument in parsed.arguments)
        returns = [_type_name(value.type) for value in parsed.returns]
        joined = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
        return cls(text, body[1], arguments, joined)

    @property
    def types(self) -> str:
        """The types alone, as the C++ side spells them: ``(Tensor, Tensor) -> Tensor``."""
        return f"({', '.join(kind for kind, _ in self.arguments)}) -> {self.returns}"

    @property
    def outputs(self) -> int:
        return self.returns.count(",") + 1

    @property
    def tensor_positions(self) -> tuple[int, ...]:
        return tuple(i for i, (kind, _) in enumerate(self.arguments) if kind.rstrip("?") == "Tensor")


def _type_name(kind: Any) -> str:
    text = str(kind)
    if text.startswith("Optional["):
        return f"{_type_name(kind.getElementType())}?"
    return {"number": "Scalar"}.get(text, text)
