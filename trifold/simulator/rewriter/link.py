"""Compiles a rewritten function and puts objects into its constants, in place of marks in the tree.

A constant loads fastest and, unlike a name, does not appear among a kernel's variables in a debugger.
"""

from __future__ import annotations
import __future__

import ast
import sys
import warnings
from collections.abc import Iterable
from types import CellType, CodeType, FunctionType
from typing import Any

_MARK = "\0trifold"
_REWRITTEN = object()  # the last constant of rewritten code
_FUTURE_FLAGS = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names} - {0x10})


class Forward:
    """A function that exists when marks are replaced: functions may call each other."""

    function: Any


class Objects:
    """Objects and their marks in a tree: constants that the compiler does not fold with others."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def mark(self, value: Any) -> frozenset[Any]:
        number = self._numbers.setdefault(id(value), len(self._objects))
        if number == len(self._objects):
            self._objects.append(value)
        return frozenset((_MARK, number))

    def put_in(self, code: CodeType) -> CodeType:
        """The code with the objects for their marks, in nested functions too."""
        return code.replace(co_consts=(*map(self._constant, code.co_consts), _REWRITTEN))

    def _constant(self, value: Any) -> Any:
        if isinstance(value, CodeType):
            return self.put_in(value)
        if isinstance(value, tuple):
            return tuple(map(self._constant, value))
        if isinstance(value, frozenset):
            if _MARK in value:
                marked = self._objects[next(part for part in value if part != _MARK)]
                return marked.function if isinstance(marked, Forward) else marked
            return frozenset(map(self._constant, value))
        return value


def is_rewritten(function: FunctionType) -> bool:
    """Whether a function was rewritten, or is nested in one that was."""
    constants = function.__code__.co_consts
    return bool(constants) and constants[-1] is _REWRITTEN


def compile_function(node: ast.FunctionDef | ast.Lambda, original: FunctionType) -> FunctionType:
    """A function of the rewritten node with the original's globals, cells and defaults; marks are still in it."""
    code = original.__code__
    inner: ast.stmt = node if isinstance(node, ast.FunctionDef) else ast.Expr(node)
    # Its free variables stay free within an outer function that has them as parameters and is never run.
    parameters = [ast.arg(name) for name in code.co_freevars]
    outer = ast.FunctionDef("outer", ast.arguments([], parameters, None, [], [], None, []), [inner], [])
    if sys.version_info >= (3, 12):
        outer.type_params = []
    tree = ast.Module([ast.copy_location(outer, node)], [])
    ast.fix_missing_locations(tree)
    with warnings.catch_warnings():
        # The source was compiled before, with its warnings; and compilers warn about calls of constants, which marks
        # are.
        warnings.simplefilter("ignore")
        module = compile(tree, code.co_filename, "exec", flags=code.co_flags & _FUTURE_FLAGS, dont_inherit=True)
    rewritten = _only_code(_only_code(module.co_consts).co_consts)
    rewritten = _rename(rewritten, rewritten.co_qualname, code.co_qualname)
    cells: dict[str, CellType] = dict(zip(code.co_freevars, original.__closure__ or (), strict=True))
    function = FunctionType(
        rewritten,
        original.__globals__,
        original.__name__,
        original.__defaults__,
        tuple(cells[name] for name in rewritten.co_freevars),
    )
    function.__kwdefaults__ = original.__kwdefaults__
    function.__qualname__ = original.__qualname__
    function.__module__ = original.__module__
    function.__doc__ = original.__doc__
    return function


def _only_code(constants: Iterable[Any]) -> CodeType:
    return next(constant for constant in constants if isinstance(constant, CodeType))


def _rename(code: CodeType, old: str, new: str) -> CodeType:
    constants = tuple(_rename(c, old, new) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=constants, co_qualname=new + code.co_qualname.removeprefix(old))
