"""Sizes that a gradient needs, such as the length of an argument that it does not save."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from trifold.draft.launch_function import LaunchFunction
from trifold.draft.tree import assigned_names

_OF_SHAPES = ("shape", "ndim", "size", "numel", "dim", "itemsize")  # what a tensor's name may be followed by


def size_in(forward: LaunchFunction, name: str) -> str | None:
    """What a variable of the forward function is, as an expression of sizes and numbers of its arguments.

    None: there is no such variable, it is assigned more than once, or it is something else.
    """
    found = _expression(forward, name, frozenset())
    return None if found is None else ast.unparse(found)


def _expression(forward: LaunchFunction, name: str, outer: frozenset[str]) -> ast.expr | None:
    values = list(_assigned(forward.tree, name))
    if len(values) != 1 or values[0] is None or name in outer:
        return None
    made = _Replaced(forward, outer | {name})
    expression = made.visit(copy.deepcopy(values[0]))
    return expression if made.possible else None


def _assigned(tree: ast.FunctionDef, name: str) -> Iterator[ast.expr | None]:
    """The values that are assigned to a variable; None for one that is not written as an expression."""
    plain = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        (target,) = node.targets
        if isinstance(target, ast.Name) and target.id == name:
            plain.add(target)
            yield node.value
        if isinstance(target, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in target.elts):
            for place, each in enumerate(target.elts):
                if isinstance(each, ast.Name) and each.id == name:
                    plain.add(each)
                    listed = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts)
                    yield node.value.elts[place] if listed else ast.Subscript(node.value, ast.Constant(place))  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) and node not in plain:
            yield None


class _Replaced(ast.NodeTransformer):
    """An expression with each variable replaced by what it is; ``possible`` is False if one is no size or number."""

    def __init__(self, forward: LaunchFunction, outer: frozenset[str]) -> None:
        self._forward, self._outer = forward, outer
        self._changed = assigned_names(forward.tree.body)
        self.possible = True

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and self._is_argument(node.value.id, "Tensor"):
            self.possible &= node.attr in _OF_SHAPES
            return node
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if self._is_argument(node.id, "int") or node.id in ("max", "min", "len"):
            return node
        found = _expression(self._forward, node.id, self._outer)
        self.possible &= found is not None
        return node if found is None else found

    def _is_argument(self, name: str, kind: str) -> bool:
        """Whether this is an argument of such a type, which the function does not assign anew."""
        return self._forward.parameters.get(name, "").startswith(kind) and name not in self._changed
