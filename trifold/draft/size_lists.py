"""Lists of sizes that a launch function changes: ``sizes = list(x.shape)``, then ``sizes[-1] = n`` or ``del sizes[0]``.

A change is rewritten as an assignment of a new list, so that drafts and fakes know only lists that never change. At an
index that the call decides, the new list is a comprehension, for which C++ has a function: see :func:`change_of`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_CHANGE = "trifold_change"  # an attribute of the comprehension


@dataclass(frozen=True)
class Change:
    """A list with another number at an index, or without it.

    Attributes:
        name: of the list.
        index, number: expressions; without a number the list is one shorter.
    """

    name: str
    index: ast.expr
    number: ast.expr | None


def change_of(node: ast.expr) -> Change | None:
    """What a comprehension stands for, if it was written here."""
    found: Change | None = getattr(node, _CHANGE, None)
    return found


def without_changes(tree: ast.FunctionDef) -> None:
    """Rewrite the changes of lists in a function, in place: of variables that it only assigns new lists, which have no
    other name."""
    lists = _new_lists(tree)
    if lists:
        _Rewriting(lists).visit(tree)
        ast.fix_missing_locations(tree)


def _new_lists(tree: ast.FunctionDef) -> set[str]:
    assigned: Counter[str] = Counter()
    new: Counter[str] = Counter()
    shared: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                assigned[name] += 1
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_new_list(value):
                new[name] += 1
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _is_new_list(value):
                new[name] += 1
            case ast.Assign(value=ast.Name(id=name)):
                shared.add(name)
    return {name for name, count in new.items() if count == assigned[name]} - shared


def _is_new_list(value: ast.expr) -> bool:
    match value:
        case ast.List() | ast.ListComp() | ast.Call(func=ast.Name(id="list")):
            return True
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _is_new_list(left) or _is_new_list(right)
    return False


class _Rewriting(ast.NodeTransformer):
    def __init__(self, lists: set[str]) -> None:
        self.lists = lists

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        match node.targets:
            case [ast.Subscript(value=ast.Name(id=name), slice=index)] if name in self.lists:
                return _changed(node, name, index, node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        match node.target:
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in self.lists:
                item = ast.Subscript(_read(name), index, ast.Load())
                return _changed(node, name, index, ast.BinOp(item, node.op, node.value))
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        match node.targets:
            case [ast.Subscript(value=ast.Name(id=name), slice=index)] if name in self.lists:
                return _changed(node, name, index, None)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        match node.value:
            case ast.Call(ast.Attribute(ast.Name(id=name), method), args, []) if name in self.lists:
                match method, args:
                    case "append", [value]:
                        return _made_of(node, name, [ast.Starred(_read(name), ast.Load()), value])
                    case "pop", []:
                        return _changed(node, name, ast.Constant(-1), None)
                    case "pop", [index]:
                        return _changed(node, name, index, None)
                    case "insert", [index, value] if (place := _constant(index)) is not None:
                        return _made_of(node, name, [_part(name, None, place), value, _part(name, place, None)])
        return node


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _constant(index: ast.expr) -> int | None:
    match index:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(value=int() as value)):
            return -value
    return None


def _changed(node: ast.stmt, name: str, index: ast.expr, number: ast.expr | None) -> ast.stmt:
    place = _constant(index)
    if place is None:
        made = ast.Assign([ast.Name(name, ast.Store())], _comprehension(name, index, number))
        return ast.copy_location(made, node)
    before = [] if place == 0 else [_part(name, None, place)]
    after = [] if place == -1 else [_part(name, place + 1, None)]
    return _made_of(node, name, [*before, *([] if number is None else [number]), *after])


def _comprehension(name: str, index: ast.expr, number: ast.expr | None) -> ast.expr:
    same, every = f"_place == ({ast.unparse(index)}) % len({name})", f"for _place, _size in enumerate({name})"
    if number is None:
        text = f"[_size {every} if not {same}]"
    else:
        text = f"[{ast.unparse(number)} if {same} else _size {every}]"
    made = ast.parse(text, mode="eval").body
    setattr(made, _CHANGE, Change(name, index, number))
    return made


def _made_of(node: ast.stmt, name: str, parts: Sequence[ast.expr]) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], ast.List(list(parts), ast.Load()))
    return ast.copy_location(made, node)


def _part(name: str, start: int | None, stop: int | None) -> ast.expr:
    ends = (None if end is None else ast.parse(str(end), mode="eval").body for end in (start, stop))
    return ast.Starred(ast.Subscript(_read(name), ast.Slice(*ends), ast.Load()), ast.Load())
