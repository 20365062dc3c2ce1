"""Messages of a launch function, and shapes as lists."""

from __future__ import annotations

import ast
import itertools
import re
import string as string_module
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host_conditions import Conditions
from trifold.draft.host_cpp import call, string, text_of, whole_shape
from trifold.draft.refusal import DraftError


class HostTexts(Conditions):
    """A base class of the executor."""

    def text(self, nodes: list[ast.expr]) -> v.Text | str:
        parts: list[str | cpp.Expr] = []
        for node in nodes:
            if isinstance(node, ast.Constant):
                parts.append(str(node.value))
                continue
            assert isinstance(node, ast.FormattedValue)
            value = self.evaluate(node.value)
            if node.format_spec is None and node.conversion == ord("r") and isinstance(value, str | v.Text):
                parts += ["'", *self.in_words(value, node), "'"]
            elif node.format_spec is None:
                parts += self.in_words(value, node)
            else:
                form = _constant_text(node.format_spec) if node.conversion == -1 else None
                parts.append(self.in_format(value, form, node))
        return _joined(parts)

    def in_format(self, value: Any, form: str | None, node: ast.AST) -> cpp.Expr:
        """A number in a format that printf has as well: ``g``, ``.3f``, ``10.2e``."""
        if not isinstance(value, v.Number) or not re.fullmatch(r"\d*(\.\d+)?[fFeEgG]", form or ""):
            remedy = "leave it out, or write one of a number such as {x:.3f} or {x:g}"
            raise DraftError(self.place(node), "this format in a message is not translated", remedy)
        digits = value.expr if value.type == v.FLOAT else cpp.Cast("double", value.expr, type=v.FLOAT)
        if form == "g":
            return call("trifold::in_digits", digits)
        return call("trifold::in_format", string(f"%{form}"), digits)

    def in_words(self, value: Any, node: ast.AST) -> list[str | cpp.Expr]:
        match value:
            case v.Text(parts=parts):
                return list(parts)
            case v.Number(expr=expr):
                return [expr]
            case v.Shape(listed=True):
                return [cpp.Name(f"trifold::List{{{text_of(self.dims(value, node))}}}")]
            case v.Shape(parts=(v.Part() as part,)):
                whole = whole_shape(value)
                return [cpp.Name(f"trifold::Shape{{{text_of(whole.expr)}}}") if whole else _range(part)]
            case v.Shape(parts=parts) if any(isinstance(part, v.Part) for part in parts):
                return [self.list_of(value, node)]
            case v.Shape(parts=parts):
                return self.in_words(parts, node)
            case v.Sizes(expr=expr):
                return [cpp.Name(f"trifold::List{{{text_of(expr)}}}") if value.listed else expr]
            # Not for a tuple with texts, whose elements Python would print in quotes.
            case tuple() if not any(isinstance(each, v.Text) for each in value):
                words = [[repr(each)] if isinstance(each, str) else self.in_words(each, node) for each in value]
                separated = [part for each in words for part in (", ", *each)]
                if isinstance(value, v.Elements):
                    return ["[", *separated[1:], "]"]
                return ["(", *separated[1:], ",)" if len(value) == 1 else ")"]
            case v.DtypeOf(tensor=tensor) if tensor is not None and tensor.is_dtype:
                return ["torch.", tensor.expr]
            case v.DtypeOf(tensor=tensor) if tensor is not None:
                return ["torch.", cpp.Name(f"trifold::Dtype{{{text_of(tensor.expr)}}}")]
            case v.Either(test=test, chosen=str() as chosen, otherwise=str() as otherwise):
                return [cpp.Ternary(test.expr, cpp.Name(f'"{chosen}"'), cpp.Name(f'"{otherwise}"'))]
            case v.DeviceOf(tensor=tensor) if tensor is not None:
                return [cpp.Name(f"trifold::Place{{{text_of(tensor.expr)}}}")]
            case str() | int() | float() | torch.dtype():
                return [str(value)]
        value_text = ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node)
        raise DraftError(
            self.place(node),
            f"{value_text} in a message is not translated",
            "messages have text, numbers, shapes, dtypes and devices",
        )

    def formatted(self, text: str, values: tuple[Any, ...], node: ast.AST) -> v.Text:
        """``"%d and %s" % (a, b)``."""
        words = re.split("%[ds]", text)
        if len(words) != len(values) + 1 or "%" in "".join(words):
            raise DraftError(self.place(node), "a format in a message is not translated", "write it as f-string")
        parts: list[str | cpp.Expr] = [words[0]]
        for value, word in zip(values, words[1:], strict=True):
            parts += [*self.in_words(value, node), word]
        return v.Text(tuple(parts))

    def formatted_by_fields(
        self, text: str, arguments: Sequence[Any], keywords: Mapping[str, Any], node: ast.AST
    ) -> v.Text | str:
        """``"{} of {name:.3f}".format(a, name=b)``."""
        parts: list[str | cpp.Expr] = []
        given = {str(number): value for number, value in enumerate(arguments)} | dict(keywords)
        automatic = itertools.count()
        for words, field, form, conversion in string_module.Formatter().parse(text):
            parts.append(words)
            if field is None:
                continue
            name = field or str(next(automatic))
            if name not in given or conversion:
                raise DraftError(self.place(node), "a format in a message is not translated", "write it as f-string")
            value = given[name]
            parts += [self.in_format(value, form, node)] if form else self.in_words(value, node)
        return _joined(parts)

    def list_of(self, shape: Any, node: ast.AST) -> cpp.Expr:
        if isinstance(shape, v.Sizes):
            return shape.expr
        parts = shape.parts if isinstance(shape, v.Shape) else shape
        written: list[cpp.Expr] = []
        for part in parts:
            if isinstance(part, v.Part):
                written.append(_range(part))
            else:
                written.append(v.number(part).expr)
        return call("trifold::sizes", *written)


def _range(part: v.Part) -> cpp.Expr:
    return call("trifold::sizes_of", part.tensor.expr, cpp.Name(str(part.start)), cpp.Name(str(part.stop)))


def _joined(parts: list[str | cpp.Expr]) -> v.Text | str:
    """A message, which is a string if it is the same for all calls."""
    if all(isinstance(part, str) for part in parts):
        return "".join(str(part) for part in parts)
    return v.Text(tuple(parts))


def _constant_text(node: ast.expr) -> str | None:
    """The text of a format that has no fields."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(text))]):
            return text
    return None


def text_parts(value: Any) -> tuple[str | cpp.Expr, ...]:
    return value.parts if isinstance(value, v.Text) else (str(value),)
