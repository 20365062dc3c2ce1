"""Sizes of results that are numbers read from tensors: the fake of an operator leaves them open."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence

from trifold.draft.tree import assigned_names, read_names

_OPEN = "torch.library.get_ctx().new_dynamic_size()"
_COMPARING = ("bool", "max", "min", "range", "sorted")  # builtins that need a number, which an open size is not


def with_open_sizes(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements with an open size for each number that they read from a tensor, except where it decides which
    statements run, or how often."""
    return [_opened(node) for node in copy.deepcopy(list(body))]


def has_open_size(body: Iterable[ast.AST]) -> bool:
    return any(_is_open(node) for statement in body for node in ast.walk(statement))


def decide(body: Sequence[ast.stmt]) -> bool:
    """Whether an open size decides something in these statements."""
    known: set[str] = set()

    def is_known(node: ast.AST) -> bool:
        return has_open_size([node]) or bool(read_names([node]) & known)

    nodes = [node for statement in body for node in ast.walk(statement)]
    while True:
        before = len(known)
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and is_known(node):
                known |= assigned_names(node.targets if isinstance(node, ast.Assign) else [node.target])
        if len(known) == before:
            break
    return any(is_known(part) for node in nodes for part in _deciding(node))


def _deciding(node: ast.AST) -> Sequence[ast.AST]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [test]
        case ast.For(iter=values):
            return [values]
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return [node]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _COMPARING:
            return args
    return []


def _opened(node: ast.stmt) -> ast.stmt:
    match node:
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Return():
            opened: ast.stmt = _Opening().visit(node)
            return opened
        case ast.If():
            node.body, node.orelse = ([_opened(each) for each in part] for part in (node.body, node.orelse))
    return node


class _Opening(ast.NodeTransformer):
    """Replaces ``x.item()`` and ``x.tolist()[i]``, with or without ``int`` around them, by an open size."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node.func, node.args:
            case (ast.Attribute(attr="item"), []):
                return _open()
            case (ast.Name(id="int"), [value]) if _is_open(value):
                return value
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Attribute(attr="tolist")):
                return _open()
        return node


def _open() -> ast.expr:
    return ast.parse(_OPEN, mode="eval").body


def _is_open(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="new_dynamic_size")):
            return True
    return False
