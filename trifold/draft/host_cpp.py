"""The C++ of a launch function's values: expressions that several modules write."""

from __future__ import annotations

import operator
from typing import Any

import torch

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.printer import expression

SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.lshift: "<<",
    operator.rshift: ">>", operator.and_: "&", operator.or_: "|", operator.xor: "^",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip
DTYPE_NAMES = {
    torch.float64: "Double",
    torch.float32: "Float",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def opposite(test: cpp.Expr) -> cpp.Expr:
    """The negation of a condition on integers."""
    if isinstance(test, cpp.Prefix) and test.operator == "!":
        return test.operand
    if isinstance(test, cpp.Infix) and test.operator in ("&&", "||"):
        return cpp.Infix(
            "||" if test.operator == "&&" else "&&", opposite(test.left), opposite(test.right), type=v.BOOL
        )
    whole = isinstance(test, cpp.Infix) and v.FLOAT not in (test.left.type, test.right.type)
    if whole and test.operator in _OPPOSITES:  # type: ignore[attr-defined]
        return cpp.Infix(_OPPOSITES[test.operator], test.left, test.right, type=v.BOOL)  # type: ignore[attr-defined]
    return cpp.Prefix("!", test, type=v.BOOL)


def infix(op: str, a: v.Number, b: v.Number, kind: Any, interval: Any = None) -> v.Number:
    return v.Number(cpp.Infix(op, a.expr, b.expr, type=kind, interval=interval), kind, interval)


def call(name: str, *arguments: cpp.Expr) -> cpp.CallTo:
    return cpp.CallTo(name, arguments)


def text_of(expr: cpp.Expr) -> str:
    text = expression(expr)
    return text if isinstance(expr, (cpp.Name, cpp.CallTo, cpp.Member)) else f"({text})"


def whole_shape(shape: Any) -> v.Tensor | None:
    """The tensor that has this shape."""
    if isinstance(shape, v.Shape) and len(shape.parts) == 1:
        (part,) = shape.parts
        if isinstance(part, v.Part) and part.start == 0 and part.stop == 0:
            return part.tensor
    return None


def scalar_type(dtype: torch.dtype) -> str:
    return f"trifold::ScalarType::{DTYPE_NAMES[dtype]}"


def scalar_of(tensor: v.Tensor) -> cpp.Expr:
    """A tensor's dtype as a ScalarType."""
    return tensor.expr if tensor.is_dtype else call(f"{text_of(tensor.expr)}.scalar_type")


def string(text: str) -> cpp.Name:
    """A string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return cpp.Name(f'"{escaped}"')


def is_table(value: Any) -> bool:
    """Whether this is a dict of integers to integers, or of integers to dtypes."""
    if not isinstance(value, dict) or not value or not all(type(each) is int for each in value):
        return False
    values = value.values()
    return all(type(each) is int for each in values) or all(each in DTYPE_NAMES for each in values)
