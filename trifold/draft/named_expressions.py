"""``if (n := x.numel()) == 0`` as an assignment and a condition: assignments within the expressions of a launch
function."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def without_named(tree: ast.FunctionDef) -> None:
    """Move ``:=`` in the function's statements before them, in place. It stays, and is refused later, where Python
    evaluates it only at times (after ``and``, in a comprehension), or after a call or a use of the name."""
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(tree)):
        _Rewriting().visit(tree)
        ast.fix_missing_locations(tree)


class _Rewriting(ast.NodeTransformer):
    def _moved(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement that evaluates one expression, its first, before all else."""
        self.generic_visit(node)
        field = "test" if isinstance(node, (ast.If, ast.While, ast.Assert)) else "value"
        expression = getattr(node, field)
        before = [] if expression is None else _assignments(expression)
        if before:
            setattr(node, field, _Names().visit(expression))
        return [*before, node]

    visit_If = visit_Assert = visit_Assign = visit_AnnAssign = visit_Return = visit_Expr = _moved

    def visit_While(self, node: ast.While) -> ast.stmt:
        """Each iteration begins with the assignments."""
        if node.orelse:
            return node
        *before, _ = self._moved(node)
        if before:
            end = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
            node.body = [*before, ast.copy_location(end, node.test), *node.body]
            node.test = ast.copy_location(ast.Constant(True), node.test)
        return node


class _Names(ast.NodeTransformer):
    """Replaces each assignment within an expression by the name."""

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        return ast.copy_location(ast.Name(node.target.id, ast.Load()), node)


def _assignments(expression: ast.expr) -> list[ast.Assign]:
    """All assignments within the expression, in order, to make before it; none if one of them cannot be."""
    done: list[ast.AST] = []  # what Python has evaluated
    moved = []
    always = set(_always(expression))
    for node in _in_order(expression):
        if isinstance(node, ast.NamedExpr):
            own = set(ast.walk(node))
            others = [each for each in done if each not in own]
            if node not in always or any(_decides_order(each, node.target.id) for each in others):
                return []
            assigned = ast.Assign([ast.Name(node.target.id, ast.Store())], node.value)
            moved.append(ast.copy_location(assigned, node))
        done.append(node)
    for each in moved:
        each.value = _Names().visit(each.value)
    return moved


def _decides_order(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id == name)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression, each after its own parts."""
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
    yield node


def _always(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that are evaluated whenever it is."""
    yield node
    match node:
        case ast.BoolOp():
            parts: list[ast.expr] = node.values[:1]
        case ast.IfExp():
            parts = [node.test]
        case ast.Compare():
            parts = [node.left, node.comparators[0]]
        case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
            parts = []
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _always(child)
            return
    for part in parts:
        yield from _always(part)
