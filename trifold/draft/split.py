"""Tuples of several types that are used as wholes: assigned again, passed on or returned.

C++ has no variable for them. Each name of such a tuple is replaced by a name for each element, before types are
inferred once more: ``best = (v, i)`` becomes ``best_0, best_1 = (v, i)``, ``best[1]`` becomes ``best_1``, a parameter
becomes several, and elsewhere ``best`` becomes ``(best_0, best_1)``.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from numba import types

from trifold.draft import tree as t
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import Source
from trifold.draft.tuples import taken_apart
from trifold.draft.variables import free_name

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


def mixed_names(function: t.Function) -> dict[str, int]:
    """The names of tuples of several types that are used as wholes, and their numbers of elements."""
    apart = taken_apart(function)
    found: dict[str, int] = {}
    left: set[str] = set()
    mixed: set[str] = set()
    for version in function.versions:
        if version.is_read or version.parameter is not None:
            count = _elements(version.type)
            if count == 0 or found.get(version.name, count) != count:
                left.add(version.name)
            elif version not in apart:
                found[version.name] = count
            if any(isinstance(each, types.Tuple) for each in version.type or ()):
                mixed.add(version.name)
    return {name: count for name, count in found.items() if name in mixed - left}


def _elements(kind: t.Type | None) -> int:
    """The number of elements of a tuple of numbers; 0: it is something else."""
    if not kind or not all(isinstance(each, types.Tuple | types.UniTuple) for each in kind):
        return 0
    numbers = (types.Number, types.Boolean)
    return len(kind[0]) if all(isinstance(part, numbers) for each in kind for part in each) else 0


def split(source: Source, names: Mapping[str, int], calls: Collection[Place]) -> Source:
    """The source with a name for each element of these tuples, and with these calls in statements of their own."""
    tree = copy.deepcopy(source.tree)
    if calls:
        tree.body = _Apart(source, calls).block(tree.body)
    taken = _names(source, tree.body)
    parts = {name: [_taken(f"{name}_{n}", taken) for n in range(count)] for name, count in names.items()}
    tree = _Elements(parts).visit(tree)
    arguments = []
    for each in tree.args.args:
        arguments += [ast.copy_location(ast.arg(part), each) for part in parts.get(each.arg, [each.arg])]
    tree.args.args = arguments
    return replace(source, tree=ast.fix_missing_locations(tree))


def _names(source: Source, body: list[ast.stmt]) -> set[str]:
    return {*source.parameters, *t.assigned_names(body), *t.read_names(body)}


def _taken(wanted: str, taken: set[str]) -> str:
    name = free_name(wanted, taken)
    taken.add(name)
    return name


class _Elements(ast.NodeTransformer):
    def __init__(self, parts: Mapping[str, list[str]]) -> None:
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.parts:
            return node
        names: list[ast.expr] = [ast.copy_location(ast.Name(each, node.ctx), node) for each in self.parts[node.id]]
        return ast.copy_location(ast.Tuple(names, node.ctx), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() as number)) if (
                name in self.parts
            ):
                return ast.copy_location(ast.Name(self.parts[name][number], node.ctx), node)
        self.generic_visit(node)
        return node


class _Apart:
    """Puts calls that are arguments before the statements that contain them."""

    def __init__(self, source: Source, calls: Collection[Place]) -> None:
        self.source, self.calls = source, calls
        self.taken = _names(source, source.tree.body)

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in body:
            for name in ("body", "orelse"):
                if inner := getattr(statement, name, None):
                    setattr(statement, name, self.block(inner))
            if isinstance(statement, _SIMPLE):
                found += self._before(statement)
            found.append(statement)
        return found

    def _before(self, statement: ast.stmt) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        earlier: set[ast.Call] = set()
        for call in list(_in_order(statement)):
            if self.source.place(call) not in self.calls:
                earlier.add(call)
                continue
            # What Python computes before it must not be computed after it.
            if earlier - set(_in_order(call)):
                raise DraftError(
                    self.source.place(call),
                    "a tuple of several types is passed on after other calls",
                    "assign it to a variable before this statement",
                )
            function = call.func.id if isinstance(call.func, ast.Name) else "call"
            name = _taken(f"{function}_result", self.taken)
            own = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], copy.copy(call)), statement)
            made.append(ast.fix_missing_locations(own))
            earlier.clear()
            _Replaced(call, name).visit(statement)
            for each in made[:-1]:
                _Replaced(call, name).visit(each)
        return made


class _Replaced(ast.NodeTransformer):
    def __init__(self, call: ast.Call, name: str) -> None:
        self.call, self.name = call, name

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if node is self.call:
            return ast.copy_location(ast.Name(self.name, ast.Load()), node)
        self.generic_visit(node)
        return node


def _in_order(node: ast.AST) -> Iterator[ast.Call]:
    """The calls within a node, in the order in which Python makes them; not those that it may not make."""
    if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
    if isinstance(node, ast.Call):
        yield node
