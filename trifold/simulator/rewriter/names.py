"""Resolves a kernel's names without running it: to modules, device functions and constants, by identity."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CellType, FunctionType, ModuleType
from typing import Any, Final

from trifold.simulator.rewriter.source import Definition

_Scoped = ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


# Numbers and strings are read when the program runs. A long integer, which is converted, is resolved like an object.
_PLAIN = (int, float, bool, str)
_LONG = 2**31


class _Unknown:
    """The value of an expression that is only known when it runs."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


def _bindings(node: _Scoped) -> _Bindings:
    """Names bound in a function, including its parameters, or in a comprehension."""
    collector = _Bindings()
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        collector.visit_arguments(node.args)
        for part in node.body if isinstance(node, ast.FunctionDef) else [node.body]:
            collector.visit(part)
    else:
        for generator in node.generators:
            collector.visit(generator.target)
    return collector


class _Bindings(ast.NodeVisitor):
    """The names bound by the statements of one scope.

    Attributes:
        number_types: names for the type of an array's numbers: ``C = x.dtype.type``.
        bound: other names.
        elsewhere: names of other scopes.
    """

    def __init__(self) -> None:
        self.number_types: set[str] = set()
        self.bound: set[str] = set()
        self.elsewhere: set[str] = set()

    def visit_arguments(self, node: ast.arguments) -> None:
        for argument in (*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg):
            if argument is not None:
                self.bound.add(argument.arg)

    def visit_Assign(self, node: ast.Assign) -> None:
        match node:
            case ast.Assign([ast.Name(name)], ast.Attribute(ast.Attribute(_, "dtype"), "type")):
                self.number_types.add(name)
            case _:
                self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.bound.add(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass

    def _visit_comprehension(self, node: ast.AST) -> None:
        for inner in ast.walk(node):  # its targets are local, but := binds in the function
            if isinstance(inner, ast.NamedExpr):
                self.bound.add(inner.target.id)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.elsewhere.update(node.names)

    visit_Nonlocal = visit_Global

    def visit_alias(self, node: ast.alias) -> None:
        self.bound.add(node.asname or node.name.partition(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs


class Scope:
    """The local names of a function or comprehension, the nested functions among them, and the array number types."""

    def __init__(self, node: _Scoped) -> None:
        bindings = _bindings(node)
        self.bound = (bindings.bound | bindings.number_types) - bindings.elsewhere
        rebound = [name for inner in ast.walk(node) if isinstance(inner, ast.Nonlocal) for name in inner.names]
        self.number_types = bindings.number_types - bindings.bound - bindings.elsewhere - {*rebound}
        self.functions: dict[str, Definition] = {}
        if isinstance(node, ast.FunctionDef):
            self._find_functions(node)

    def _find_functions(self, node: ast.FunctionDef) -> None:
        """Nested functions whose name is bound once."""
        bindings = [a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef) and inner is not node:
                bindings.append(inner.name)
                self.functions[inner.name] = inner
            elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                bindings.append(inner.id)
            elif isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Lambda):
                for target in inner.targets:
                    if isinstance(target, ast.Name):
                        self.functions[target.id] = inner.value
        self.functions = {name: f for name, f in self.functions.items() if bindings.count(name) == 1}


class Names:
    """The names visible in one function: its nested scopes, then its cells, its globals and the built-ins.

    ``is_namespace``: whether an object's attributes are fixed, as a module's are; ``is_device_function``: whether a
    kernel calls an object as a device function.
    """

    def __init__(
        self,
        function: FunctionType,
        node: Definition,
        is_namespace: Callable[[Any], bool],
        is_device_function: Callable[[Any], bool],
    ) -> None:
        self._globals = function.__globals__
        self._cells: dict[str, CellType] = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )
        self._is_namespace = is_namespace
        self._is_device_function = is_device_function
        self._scopes = [Scope(node)]
        self._read: dict[str, Any] = {}
        self._decided: set[str] = set()

    @contextmanager
    def scope(self, node: _Scoped) -> Iterator[None]:
        """Within it, names of the node hide outer ones."""
        self._scopes.append(Scope(node))
        try:
            yield
        finally:
            self._scopes.pop()

    def is_local(self, name: str) -> bool:
        return any(name in scope.bound for scope in self._scopes)

    def local_function(self, name: str) -> Definition | None:
        """The nested function that a local name always refers to."""
        owner = self._owner(name)
        return owner.functions.get(name) if owner else None

    def is_number_type(self, name: str) -> bool:
        """Whether a local name always refers to the type of an array's numbers."""
        owner = self._owner(name)
        return owner is not None and name in owner.number_types

    def _owner(self, name: str) -> Scope | None:
        return next((scope for scope in reversed(self._scopes) if name in scope.bound), None)

    def resolve(self, node: ast.expr) -> Any:
        """The object that an expression of names and attributes refers to, or UNKNOWN."""
        if isinstance(node, ast.Name):
            if self.is_local(node.id):
                return UNKNOWN
            value = self._read[node.id] = self._lookup(node.id)
            return value
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            if owner is UNKNOWN:
                return UNKNOWN
            if isinstance(owner, ModuleType) or self._is_namespace(owner):
                return getattr(owner, node.attr, UNKNOWN)
            # Attributes of other objects may change: only a device function among them is considered fixed.
            value = inspect.getattr_static(owner, node.attr, UNKNOWN)
            value = value.__func__ if isinstance(value, staticmethod) else value
            return value if self._is_device_function(value) else UNKNOWN
        return UNKNOWN

    def resolve_for_good(self, node: ast.expr) -> Any:
        """As :meth:`resolve`, if the program depends on the number that a name refers to."""
        if isinstance(node, ast.Name):
            self._decided.add(node.id)
        return self.resolve(node)

    def still_hold(self) -> bool:
        """Whether the resolved names still refer to the same objects, or to other plain numbers that the program does
        not depend on."""
        for name, value in self._read.items():
            now = self._lookup(name)
            if not self._is_like(now, value) or (name in self._decided and now != value):
                return False
        return True

    @staticmethod
    def _is_like(now: Any, then: Any) -> bool:
        if now is then:
            return True
        kind = type(then)
        if type(now) is not kind or kind not in _PLAIN:
            return False
        return kind is not int or (abs(now) < _LONG and abs(then) < _LONG)

    def _lookup(self, name: str) -> Any:
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:  # not assigned yet
                return UNKNOWN
        if name in self._globals:
            return self._globals[name]
        return getattr(builtins, name, UNKNOWN)
