"""The typed tree: a kernel with Python's semantics, in which each name is resolved and each expression has a type.

Variables are in static single assignment form, as in Numba's own pipeline: each assignment makes a :class:`Version`,
and where control flow joins, a version has several sources. A type is a tuple with one Numba type for each instance of
the kernel that is drafted, such as one for each dtype.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numba import types

from trifold.draft.refusal import Place
from trifold.draft.source import Source

Type = tuple[types.Type, ...]
Interval = tuple[int, int]  # of an integer, inclusive


_fields: dict[type, tuple[str, ...]] = {}


def names_of_fields(node: Any) -> tuple[str, ...]:
    """The field names of a dataclass's object; looked up once for each class."""
    found = _fields.get(type(node))
    if found is None:
        found = _fields[type(node)] = tuple(item.name for item in fields(node))
    return found


@dataclass(eq=False)
class Expr:
    place: Place
    type: Type | None = field(default=None, init=False)
    interval: Interval | None = field(default=None, init=False)

    def children(self) -> Iterator[Expr]:
        for name in names_of_fields(self):
            value = getattr(self, name)
            if isinstance(value, Expr):
                yield value
            elif isinstance(value, (list, tuple, dict)):
                values = value.values() if isinstance(value, dict) else value
                yield from (each for each in values if isinstance(each, Expr))


@dataclass(eq=False)
class Constant(Expr):
    """A number in the kernel's text, or a global constant, which has a name."""

    value: Any
    name: str | None = None
    text: str | None = None  # as written, of a single literal
    of_enumeration: bool = False


@dataclass(eq=False)
class Read(Expr):
    version: Version


@dataclass(eq=False)
class Known(Expr):
    """A global object that is not a number: a function, a module, a dtype."""

    value: Any


@dataclass(eq=False)
class Unary(Expr):
    operator: Any  # a function of the module operator
    operand: Expr
    signature: Any = None


@dataclass(eq=False)
class Binary(Expr):
    operator: Any
    left: Expr
    right: Expr
    in_place: bool = False
    signature: Any = None


@dataclass(eq=False)
class Compare(Expr):
    operators: list[Any]
    operands: list[Expr]  # one more than operators
    signatures: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class Logical(Expr):
    """`and` or `or`, whose value is that of one operand."""

    all_of: bool
    operands: list[Expr]


@dataclass(eq=False)
class Choice(Expr):
    test: Expr
    chosen: Expr
    otherwise: Expr


@dataclass(eq=False)
class Call(Expr):
    function: Any
    arguments: list[Expr]
    keywords: dict[str, Expr]
    signature: Any = None
    callees: Any = None  # the analysed device function, if it is one
    result: Type | None = None  # to which its result is converted: by an explicit signature


@dataclass(eq=False)
class Attribute(Expr):
    base: Expr
    name: str


@dataclass(eq=False)
class Item(Expr):
    """base[indices], for an array or a tuple."""

    base: Expr
    indices: list[Expr]


@dataclass(eq=False)
class Slice(Expr):
    """An index that keeps a dimension; None where a bound is omitted."""

    start: Expr | None
    stop: Expr | None
    step: int = 1

    @property
    def is_whole(self) -> bool:
        """``:``"""
        return self.start is None and self.stop is None and self.step == 1

    @property
    def constant(self) -> slice | None:
        """Of a tuple; None: a bound is no constant."""
        start, stop = (None if end is None else getattr(end, "value", "") for end in (self.start, self.stop))
        known = all(each is None or type(each) is int for each in (start, stop))
        return slice(start, stop, self.step) if known else None


@dataclass(eq=False)
class TupleOf(Expr):
    elements: list[Expr]
    name: str | None = None  # of a global constant
    fields: tuple[str, ...] = ()  # of a named tuple


def unnamed(expression: Expr) -> Expr:
    """A constant as numbers."""
    return replace(expression, name=None) if isinstance(expression, (Constant, TupleOf)) else expression


@dataclass(eq=False)
class Table(Expr):
    """A global array, which is a constant in the kernel."""

    values: np.ndarray
    name: str


@dataclass(eq=False)
class Version:
    """One assignment of a variable, or a join of several."""

    name: str
    number: int
    place: Place
    value: Expr | None = None  # of an assignment
    part: int | None = None  # of the value, if that is a tuple
    parameter: int | None = None
    counts: ForRange | None = None  # the loop whose variable it is
    runs_over: ForTuple | None = None
    sources: list[Version] = field(default_factory=list)  # of a join
    joined_at: Stmt | None = None
    is_join: bool = False
    is_read: bool = False
    type: Type | None = None
    interval: Interval | None = None


# ------------------------------------------------------------------------------------------------- statements


@dataclass(eq=False)
class Stmt:
    place: Place
    last_line: int


@dataclass(eq=False)
class Let(Stmt):
    version: Version
    value: Expr


@dataclass(eq=False)
class Unpack(Stmt):
    versions: list[Version]
    value: Expr


@dataclass(eq=False)
class Store(Stmt):
    base: Expr
    indices: list[Expr]
    value: Expr
    operator: Any = None  # of `base[indices] op= value`
    signature: Any = None
    member: str | None = None  # for a record, which the base is, without indices


@dataclass(eq=False)
class Evaluate(Stmt):
    value: Expr


@dataclass(eq=False)
class If(Stmt):
    test: Expr
    body: list[Stmt]
    otherwise: list[Stmt]


@dataclass(eq=False)
class While(Stmt):
    test: Expr
    body: list[Stmt]
    otherwise: list[Stmt]


@dataclass(eq=False)
class ForRange(Stmt):
    bounds: list[Expr]  # one to three
    body: list[Stmt]
    otherwise: list[Stmt]
    version: Version | None = None
    counter: Any = None  # the type in which it counts


@dataclass(eq=False)
class ForTuple(Stmt):
    elements: Expr
    body: list[Stmt]
    otherwise: list[Stmt]
    version: Version | None = None


@dataclass(eq=False)
class Return(Stmt):
    value: Expr | None
    of_assert: bool = False  # the thread ends if an assertion fails


@dataclass(eq=False)
class Break(Stmt):
    pass


@dataclass(eq=False)
class Continue(Stmt):
    pass


@dataclass(eq=False)
class Function:
    """A kernel or device function, for one combination of argument types."""

    source: Source
    is_kernel: bool
    parameters: list[Version]
    body: list[Stmt]
    versions: list[Version]
    returns: list[Return]
    result: Type | None = None
    callees: list[Function] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)  # into how many parameters each of the text's is divided

    @property
    def name(self) -> str:
        return self.source.name


def bodies(statement: Stmt) -> list[list[Stmt]]:
    if isinstance(statement, (If, While, ForRange, ForTuple)):
        return [statement.body, statement.otherwise]
    return []


def walk(body: list[Stmt]) -> Iterator[Stmt]:
    """Every statement, in the order of the text."""
    for statement in body:
        yield statement
        for inner in bodies(statement):
            yield from walk(inner)


def expressions(statement: Stmt) -> Iterator[Expr]:
    """The outermost expressions of a statement, without those in its body."""
    for name in names_of_fields(statement):
        value = getattr(statement, name)
        if isinstance(value, Expr):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, Expr))


def walk_expression(expression: Expr) -> Iterator[Expr]:
    """All expressions within one, operands first."""
    for child in expression.children():
        yield from walk_expression(child)
    yield expression


def assigned_names(nodes: Iterable[ast.AST]) -> set[str]:
    found = (node for root in nodes for node in ast.walk(root) if isinstance(node, ast.Name))
    return {node.id for node in found if isinstance(node.ctx, ast.Store)}


def read_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that are read, without the variables of comprehensions in them."""
    found: set[str] = set()
    for node in nodes:
        inner = read_names(ast.iter_child_nodes(node))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            inner -= assigned_names(each.target for each in node.generators)
        found |= {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else inner
    return found
