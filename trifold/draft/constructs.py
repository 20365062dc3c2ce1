"""Constructs of Python that kernels do not have: their names in messages, and what to write instead."""

from __future__ import annotations

import ast
from typing import Any

from trifold.draft import tree as t
from trifold.draft.refusal import DraftError, Place

_OUTSIDE = "define it outside of the kernel, with @cuda.jit(device=True)"
_OF_CONSTRUCTS = {
    "NamedExpr": "assign it before the statement",
    "Lambda": _OUTSIDE,
    "FunctionDef": _OUTSIDE,
    "List": "write a tuple, or use cuda.local.array",
    "ListComp": "write a loop",
    "GeneratorExp": "write a loop",
    "Raise": "return, and check arguments in the launch function",
    "Try": "test before the operation",
    "Match": "write if and elif",
    "Delete": "leave it out",
    "With": "leave it out: the launch function has contexts",
    "Global": "write to an array",
    "Nonlocal": "write to an array",
    "Dict": "write if and elif, or a tuple that an integer indexes",
    "Set": "write a tuple",
    "JoinedStr": "print the parts: print(a, b)",
    "Constant": "pass numbers to the kernel, or members of an enum.IntEnum",
    "Compare": "write comparisons by <, ==, in of a tuple, and the like",
    "BinOp": "write a loop",
    "Starred": "write the elements out",
}
_LET_LAUNCH = "let the launch function do it, and pass the result"
_OF_METHODS = {
    "size": "write x.size, the number of elements, or x.shape[0]",
    "item": "write x[i]",
    "fill": "write x[:] = v",
    "astype": "convert each element, as in float32(x[i])",
    "copy": "assign the elements to an array of cuda.local.array",
    "view": f"of an array: {_LET_LAUNCH}; of a number: use cuda.libdevice.float_as_int(x), int_as_float(n) and such",
    **dict.fromkeys(("reshape", "ravel", "flatten", "transpose"), _LET_LAUNCH),
    **dict.fromkeys(("sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax", "dot"), "write a loop"),
}


def refused(node: ast.AST, place: Place) -> DraftError:
    return DraftError(place, f"{_words(node)} is not translated", _OF_CONSTRUCTS.get(type(node).__name__, ""))


def _words(node: ast.AST) -> str:
    """Describes a construct for an error message."""
    named = {
        "NamedExpr": "an assignment within an expression (:=)",
        "ListComp": "a list comprehension",
        "GeneratorExp": "a generator",
        "Lambda": "a lambda",
        "JoinedStr": "an f-string",
        "Constant": "this literal",
        "List": "a list",
        "Dict": "a dictionary",
        "Try": "try",
        "Raise": "raise",
        "Assert": "assert",
        "With": "with",
        "FunctionDef": "a function within a kernel",
        "Compare": "this comparison",
        "Delete": "del",
        "Match": "match",
        "BinOp": "this operator",
        "Global": "global",
        "Set": "a set",
    }
    return named.get(type(node).__name__, type(node).__name__)


def not_called(function: t.Expr, place: Place) -> DraftError:
    """The error for a call of something that is no function from outside the kernel."""
    if isinstance(function, t.Attribute):
        problem = f"the method {function.name} is not translated in a kernel"
        return DraftError(place, problem, _OF_METHODS.get(function.name, _OUTSIDE))
    return DraftError(place, "only functions from outside the kernel can be called", _OUTSIDE)


_OF_FUNCTIONS = {
    **dict.fromkeys(("isinstance", "type"), "leave it out: each kernel is drafted for the types of its arguments"),
    **dict.fromkeys(("zeros", "ones", "empty"), "use cuda.local.array(shape, dtype), and assign array[:] = 0"),
    "sum": "write a loop",
    "clip": "use min and max",
}


def remedy_for(function: Any, name: str) -> str:
    """What to write instead of a call of this function."""
    if hasattr(function, "_fields"):
        return "write a tuple, and its elements as p[0] and p[1]"
    return _OF_FUNCTIONS.get(name, "write it out, or use another function of math, NumPy or numba.cuda")
