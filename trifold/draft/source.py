"""A kernel's source: its syntax tree, its comments, and the values of its global names."""

from __future__ import annotations

import ast
import builtins
import collections.abc
import inspect
import io
import textwrap
import tokenize
import typing
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType, GenericAlias, UnionType
from typing import Any

from trifold.draft.match_statements import without_match
from trifold.draft.named_expressions import without_named
from trifold.draft.refusal import DraftError, Place
from trifold.draft.size_lists import without_changes


@dataclass(frozen=True)
class Comment:
    line: int
    text: str  # without the number sign
    alone: bool  # on its own line


@dataclass(frozen=True)
class Source:
    """A Python function as written."""

    function: FunctionType
    tree: ast.FunctionDef
    path: str
    comments: tuple[Comment, ...]
    lines: tuple[str, ...]  # of the function, without its indentation

    @property
    def name(self) -> str:
        return self.tree.name

    @property
    def first_line(self) -> int:
        return self.tree.lineno

    @property
    def docstring(self) -> str | None:
        text = ast.get_docstring(self.tree)
        return text.strip() if text else None

    @property
    def body(self) -> list[ast.stmt]:
        """The statements without the docstring."""
        return self.tree.body[1:] if ast.get_docstring(self.tree, clean=False) is not None else self.tree.body

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(argument.arg for argument in self.tree.args.args)

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of parameters."""
        values = self.function.__defaults__ or ()
        return dict(zip(self.parameters[len(self.parameters) - len(values) :], values, strict=True))

    @property
    def lines_begin(self) -> int:
        """The line number of the first of ``lines``, which is the first decorator."""
        return min([self.tree.lineno, *(each.lineno for each in self.tree.decorator_list)])

    def text(self, node: ast.expr) -> str:
        """The text of an expression on one line."""
        return self.lines[node.lineno - self.lines_begin][node.col_offset : node.end_col_offset]

    def place(self, node: ast.AST) -> Place:
        return Place(self.path, getattr(node, "lineno", self.first_line), getattr(node, "col_offset", 0))

    def stores(self, name: str) -> int:
        """How often the function assigns a name."""
        nodes = (each for each in ast.walk(self.tree) if isinstance(each, ast.Name) and each.id == name)
        return sum(isinstance(each.ctx, ast.Store) for each in nodes)

    @cached_property
    def _names(self) -> dict[str, Any]:
        cells = self.function.__closure__ or ()
        closure = {}
        for name, cell in zip(self.function.__code__.co_freevars, cells, strict=True):
            try:
                closure[name] = cell.cell_contents
            except ValueError:  # not yet assigned
                continue
        return {**vars(builtins), **self.function.__globals__, **closure}

    def value_of(self, node: ast.Name) -> Any:
        """The value of a name from outside the function."""
        if node.id not in self._names:
            raise DraftError(self.place(node), f"{node.id} is not defined", "import it, or define it in the module")
        return self._names[node.id]


def read(function: FunctionType) -> Source:
    """The source of a Python function.

    Raises:
        DraftError: the text is not available, or the function has other than plain positional parameters.
    """
    path = inspect.getsourcefile(function) or function.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        place = Place(path, function.__code__.co_firstlineno)
        raise DraftError(
            place, f"the text of {function.__name__} is not available ({error})", "define it in a file"
        ) from None
    text = textwrap.dedent("".join(lines))
    tree = _definition(text, first, Place(path, first))
    without_match(tree)
    arguments = tree.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        raise DraftError(
            Place(path, tree.lineno),
            f"{tree.name} has parameters of other kinds than plain positional ones",
            "give it plain positional parameters",
        )
    return Source(function, tree, path, tuple(_comments(text, first - 1)), tuple(text.splitlines()))


def _definition(text: str, first: int, place: Place) -> ast.FunctionDef:
    """The function that a text defines: by ``def``, or as the only lambda of a statement."""
    try:
        module = ast.parse(text)
    except SyntaxError:  # for a lambda: the text begins or ends within a statement
        raise DraftError(place, "this function's text is no whole statement", "write it with def") from None
    ast.increment_lineno(module, first - 1)
    (statement, *_) = module.body
    if isinstance(statement, ast.FunctionDef):
        return statement
    lambdas = [each for each in ast.walk(statement) if isinstance(each, ast.Lambda)]
    if len(lambdas) != 1:
        raise DraftError(place, "one of several lambdas in a statement is not translated", "write it with def")
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            pass
        case _:
            name = "function"
    (own,) = lambdas
    returned = ast.copy_location(ast.Return(own.body), own.body)
    made = ast.FunctionDef(name, own.args, [returned], [])
    return ast.copy_location(made, statement)


def _comments(text: str, lines_before: int) -> list[Comment]:
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            found.append(Comment(token.start[0] + lines_before, token.string.lstrip("#").strip(), alone))
    return found


def function_tree(function: FunctionType) -> tuple[ast.FunctionDef, int]:
    """The syntax tree of a launch function or helper, in which no list changes, and the number of lines before it in
    its file."""
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    if isinstance(tree, ast.Assign) and isinstance(tree.value, ast.Lambda):
        tree = as_function(tree.value)
    assert isinstance(tree, ast.FunctionDef)
    without_match(tree)
    without_named(tree)
    without_changes(tree)
    return tree, first - 1


def as_function(node: ast.Lambda) -> ast.FunctionDef:
    """A lambda as a function with a name."""
    body = ast.Return(node.body)
    made = ast.FunctionDef("lambda", node.args, [body], [])
    return ast.fix_missing_locations(ast.copy_location(made, node))


def with_positional_parameters(tree: ast.FunctionDef) -> ast.FunctionDef:
    """The function with parameters after ``*`` as plain ones, which C++ has alone; their defaults are the caller's."""
    if tree.args.kwonlyargs:
        tree.args.args += tree.args.kwonlyargs
        tree.args.kwonlyargs, tree.args.kw_defaults, tree.args.defaults = [], [], []
    return tree


def without_none(hint: Any) -> tuple[Any, bool]:
    """The type X of an annotation ``X | None``, as a type that schemas have, and whether it is one."""
    optional = typing.get_origin(hint) in (typing.Union, UnionType) and type(None) in typing.get_args(hint)
    inner = next((a for a in typing.get_args(hint) if a is not type(None)), hint) if optional else hint
    match typing.get_origin(inner), typing.get_args(inner):
        case typing.Literal, words if all(isinstance(each, str) for each in words):
            return str, optional
        case collections.abc.Sequence, (element,):
            return GenericAlias(list, (element,)), optional
        case builtins.tuple, (element, builtins.Ellipsis):
            return GenericAlias(list, (element,)), optional
        case builtins.tuple, (element, *others) if element in (int, float) and all(each is element for each in others):
            return GenericAlias(list, (element,)), optional
    return inner, optional


def is_short_row(value: tuple[Any, ...]) -> bool:
    """Whether the elements of this constant get names: ``TILE_0``. In nvcc, host and device cannot share a constant
    array."""
    return len(value) <= 4 and all(type(each) in (int, float) for each in value)
