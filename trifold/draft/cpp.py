"""The C++ tree, from which text is printed. An expression has its C++ type and, if it is an integer, its range of
values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numba import types

from trifold.draft import oracle, vectors
from trifold.draft.tree import Interval, Type


@dataclass(frozen=True)
class Expr:
    type: Type | None = field(default=None, kw_only=True)
    interval: Interval | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Name(Expr):
    text: str


@dataclass(frozen=True)
class Literal(Expr):
    text: str
    value: float | int | bool


@dataclass(frozen=True)
class Prefix(Expr):
    operator: str
    operand: Expr


@dataclass(frozen=True)
class Infix(Expr):
    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Ternary(Expr):
    test: Expr
    chosen: Expr
    otherwise: Expr


@dataclass(frozen=True)
class CallTo(Expr):
    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class Index(Expr):
    base: Expr
    indices: tuple[Expr, ...]  # [i][j]


@dataclass(frozen=True)
class Invoke(Expr):
    """A call of a member: callee(arguments)."""

    callee: Expr
    arguments: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Member(Expr):
    base: Expr
    name: str


@dataclass(frozen=True)
class Cast(Expr):
    """static_cast<to>(operand); for a template's type, to(operand)."""

    to: str
    operand: Expr
    held: bool = False  # the operand, of a wider type, has a value of this type
    stored: str | None = None  # the type that the operand is stored in


@dataclass(frozen=True)
class Braces(Expr):
    """{elements}, after the name of their type unless that is clear."""

    elements: tuple[Expr, ...]
    of: str = ""


# ------------------------------------------------------------------------------------------------- statements


@dataclass
class Stmt:
    line: int = field(default=0, kw_only=True)  # of the prototype; 0: none
    remark: str = field(default="", kw_only=True)  # at the line's end


@dataclass
class Remark(Stmt):
    """A comment on its own line."""

    text: str


@dataclass
class Blank(Stmt):
    pass


@dataclass
class Declare(Stmt):
    type: str  # may end with *
    names: list[str]
    value: Expr | None = None
    extents: str = ""  # "[4][8]" for an array


@dataclass
class Assign(Stmt):
    target: Expr
    operator: str  # "=", "+=", …
    value: Expr


@dataclass
class Several(Stmt):
    """Statements in place of one."""

    body: list[Stmt]


@dataclass
class Run(Stmt):
    value: Expr


@dataclass
class If(Stmt):
    test: Expr
    body: list[Stmt]
    otherwise: list[Stmt]
    constant: bool = False  # if constexpr


@dataclass
class While(Stmt):
    test: Expr
    body: list[Stmt]


@dataclass
class For(Stmt):
    """for (type name = start; test; step) body."""

    type: str
    name: str
    start: Expr
    test: Expr
    step: Stmt
    body: list[Stmt]


@dataclass
class ForEach(Stmt):
    type: str
    name: str
    values: Expr
    body: list[Stmt]


@dataclass
class Return(Stmt):
    value: Expr | None


@dataclass
class Jump(Stmt):
    word: str  # break or continue


@dataclass
class Scope(Stmt):
    """A body in braces."""

    body: list[Stmt]


@dataclass
class Threads(Stmt):
    """Runs the body for each thread of the block; ``sets_index``: ``::threadIdx`` is set for it."""

    body: list[Stmt]
    sets_index: bool = False


@dataclass
class Dispatch(Stmt):
    """function(over, [&]<class T>() { body });"""

    function: str
    over: Expr
    body: list[Stmt]
    parameter: str


@dataclass
class Struct:
    name: str
    template: str
    members: list[tuple[str, str]]  # type, name


@dataclass
class Parameter:
    type: str
    name: str


@dataclass
class Function:
    comment: list[str]
    template: str  # "" or "class T"
    qualifiers: str
    result: str
    name: str
    parameters: list[Parameter]
    body: list[Stmt]
    path: str


@dataclass
class ConstantDefinition:
    type: str
    name: str
    value: str
    remark: str = ""


@dataclass
class TableDefinition:
    """An array of constants, in the GPU's constant memory."""

    type: str
    name: str
    shape: tuple[int, ...]
    values: list[Expr]  # of all elements, the last index varying fastest


@dataclass
class AliasDefinition:
    """template <class T> using name = value."""

    name: str
    value: str
    parameters: list[str]


@dataclass
class PairsDefinition:
    """An array of constant pairs: of integers and of values of this type."""

    type: str
    name: str
    pairs: list[tuple[str, str]]


@dataclass
class Assertion:
    """static_assert(test)."""

    test: str


Part = Assertion | Struct | Function | ConstantDefinition | TableDefinition | PairsDefinition | AliasDefinition


@dataclass
class File:
    comment: list[str]
    includes: list[str]
    parts: list[Part]
    once: bool = True


# ------------------------------------------------------------------------------------------------- names of types

NAMES = {
    types.boolean: "bool",
    types.int8: "int8_t",
    types.int16: "int16_t",
    types.int32: "int",
    types.int64: "int64_t",
    types.uint8: "uint8_t",
    types.uint16: "uint16_t",
    types.uint32: "uint32_t",
    types.uint64: "uint64_t",
    types.float32: "float",
    types.float64: "double",
    types.float16: "__half",
    types.complex64: "trifold::Complex<float>",
    types.complex128: "trifold::Complex<double>",
    oracle.grid_group(): "cooperative_groups::grid_group",
    types.none: "void",
    **vectors.NAMES,
}


def not_finite(value: float) -> str:
    """The macro of <cmath> for an infinity or a nan."""
    return "NAN" if math.isnan(value) else "-INFINITY" if value < 0 else "INFINITY"


def float_literal(number: float, kind: Type) -> Literal | None:
    """A literal of float64 or float32, whose value is rounded; None: it is beyond the range of float32."""
    if kind[0] != types.float32:
        return Literal(repr(number), number, type=kind)
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    return Literal(f"{number!r}f", rounded, type=kind) if math.isfinite(rounded) else None


def limits(kind: types.Type) -> Interval | None:
    """The range of an integer type."""
    if isinstance(kind, types.Boolean):
        return 0, 1
    if isinstance(kind, types.Integer):
        return int(kind.minval), int(kind.maxval)
    return None


_INTEGERS = {name: kind for kind, name in NAMES.items() if name.endswith("_t")}


def holds(name: str, value: float) -> bool:
    """Whether the integer type of this name has the value; True for a name that is not a keyword."""
    return name in _INTEGERS and isinstance(value, int) and fits((value, value), _INTEGERS[name])


def widens(kind: Type | None, name: str) -> bool:
    """Whether the integer type of this name has all values of these types; True for a name that is not a keyword."""
    wide = _INTEGERS.get(name)
    return wide is not None and all(fits(limits(each), wide) for each in kind or (None,))


def fits(interval: Interval | None, kind: types.Type) -> bool:
    bounds = limits(kind)
    return interval is not None and bounds is not None and bounds[0] <= interval[0] and interval[1] <= bounds[1]
