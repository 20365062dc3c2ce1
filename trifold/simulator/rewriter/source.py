"""From a function to its syntax tree: the node in its file, with the file's own lines and columns."""

from __future__ import annotations

import ast
import dis
import linecache
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType

Definition = ast.FunctionDef | ast.Lambda


class SourceMissing(Exception):
    """A function's source cannot be read; the text gives the reason."""


@dataclass
class _File:
    lines: list[str]
    definitions: dict[tuple[str, int], list[Definition]] = field(default_factory=dict)


_files: dict[str, _File] = {}


def find_definition(function: FunctionType) -> Definition:
    """The node that ``function`` was compiled from. It is shared: copy it before changing it.

    Raises:
        SourceMissing: exec, only a .pyc, or a file that has changed since.
    """
    code = function.__code__
    definitions = _file(function).definitions.get((code.co_name, code.co_firstlineno), [])
    fitting = [node for node in definitions if _fits(code, node)]
    if not fitting:
        raise SourceMissing(f"{code.co_filename} no longer holds it as it was imported")
    return min(fitting, key=_extent)  # a lambda in a lambda: the inner one


def _file(function: FunctionType) -> _File:
    name = function.__code__.co_filename
    lines = linecache.getlines(name, function.__globals__) or _command(name, function)
    if not lines:
        raise SourceMissing("it was made from text that is in no file" if name.startswith("<") else f"no file {name}")
    known = _files.get(name)
    if known is None or (known.lines is not lines and known.lines != lines):
        known = _files[name] = _parse(name, lines)
    return known


def _command(name: str, function: FunctionType) -> list[str]:
    """The program text of ``python -c``."""
    words = sys.orig_argv
    if name != "<string>" or function.__globals__.get("__name__") != "__main__" or "-c" not in words:
        return []
    return words[words.index("-c") + 1].splitlines(keepends=True)


def _parse(name: str, lines: list[str]) -> _File:
    try:
        tree = ast.parse("".join(lines), name)
    except (SyntaxError, ValueError) as error:
        raise SourceMissing(f"{name} cannot be parsed: {error}") from None
    found = _File(lines)
    for node in ast.walk(_Folded().visit(tree)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.definitions.setdefault((node.name, first), []).append(node)
        elif isinstance(node, ast.Lambda):
            found.definitions.setdefault(("<lambda>", node.lineno), []).append(node)
    return found


class _Folded(ast.NodeTransformer):
    """Folds operators on constants where CPython does: Numba sees 0.001 and not ``10 ** -3``, whose operands are
    integers."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if not all(isinstance(part, _OF_CONSTANTS) for part in ast.walk(node)):
            self.generic_visit(node)
            return node
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            code = compile(ast.Expression(node), "", "eval")
        if any(instruction.opname not in _ONE_CONSTANT for instruction in dis.get_instructions(code)):
            return node  # too large, or an error when it runs
        return ast.copy_location(ast.Constant(eval(code)), node)


_OF_CONSTANTS = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
_ONE_CONSTANT = frozenset({"RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"})


def _fits(code: CodeType, node: Definition) -> bool:
    """Whether the arguments are the same and every instruction lies within the node."""
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) != names:
        return False
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return all(start <= (line, column) <= end for line, column in _positions(code))


def _positions(code: CodeType) -> Iterator[tuple[int, int]]:
    for line, end_line, column, end_column in code.co_positions():
        # An instruction without text of its own (RESUME, COPY_FREE_VARS) has an empty range at a line's start.
        if line is None or column is None or (line, column) == (end_line, end_column):
            continue
        yield line, column


def _extent(node: Definition) -> tuple[int, int]:
    return (node.end_lineno or 0) - node.lineno, (node.end_col_offset or 0) - node.col_offset
