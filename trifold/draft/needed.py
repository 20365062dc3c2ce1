"""The part of a launch function that its results depend on, without checks and launches."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trifold.draft.host_jumps import returns
from trifold.draft.tree import assigned_names, read_names


def what_results_need(body: Sequence[ast.stmt], needed: set[str], *, jumps: bool = True) -> list[ast.stmt]:
    """The statements of a body on which its results, and variables needed after it, depend.

    ``jumps``: break and continue are kept, with the conditions of them.
    """
    kept: list[ast.stmt] = []
    for node in reversed(body):
        match node:
            case ast.Return(value=value):
                kept.append(node)
                needed |= read_names([value] if value is not None else [])
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if assigned_names(targets) & needed:
                    kept.append(node)
                    needed |= read_names([node])
            case ast.If(test=test):
                inner, other = (what_results_need(part, needed, jumps=jumps) for part in (node.body, node.orelse))
                if inner or other:
                    kept.append(ast.If(test, inner or [ast.Pass()], other))
                    needed |= read_names([test])
            case ast.With() if _decides(node, needed):
                needed |= read_names([node])
                kept.append(node)
            case ast.For() | ast.While() if _decides(node, needed):
                after = set(needed)
                loop = _loop_of_needed(node, needed, jumps=jumps)
                if reads_numbers(loop) and _only_exchanges(_loop_of_needed(node, set(after), jumps=False)):
                    # A tensor's values end it, which a fake has none of; but what it exchanges is of one kind.
                    needed.clear()
                    needed |= after
                    continue
                kept.append(loop)
                needed |= read_names([loop])
            case ast.Break() | ast.Continue() if jumps:
                kept.append(node)
            case ast.FunctionDef(name=name) if name in needed:
                needed |= read_names([node])
                kept.append(node)
            case ast.Import() | ast.ImportFrom():
                kept.append(node)
    return kept[::-1]


def _decides(node: ast.With | ast.For | ast.While, needed: set[str]) -> bool:
    """Whether a statement may assign what is needed, or return."""
    return bool(assigned_names([node]) & needed) or returns([node])


def reads_numbers(node: ast.AST) -> bool:
    """Whether this reads numbers from tensors."""
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return any(isinstance(each, ast.Attribute) and each.attr in ("item", "tolist") for each in calls)


def _only_exchanges(loop: ast.For | ast.While) -> bool:
    """Whether each statement of a loop is like ``a, b = b, a``."""
    for node in loop.body:
        match node:
            case ast.Pass():
                continue
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                names = [[each.id for each in part if isinstance(each, ast.Name)] for part in (targets, values)]
                if len(names[0]) == len(targets) and sorted(names[0]) == sorted(names[1]):
                    continue
        return False
    return True


def _loop_of_needed(node: ast.For | ast.While, needed: set[str], *, jumps: bool) -> ast.For | ast.While:
    """A loop reduced to statements on which something after it, or a later iteration, depends."""
    otherwise = what_results_need(node.orelse, needed, jumps=jumps)
    while True:
        before = set(needed)
        body = what_results_need(node.body, needed, jumps=jumps) or [ast.Pass()]
        if needed == before:
            break
    if isinstance(node, ast.While):
        return ast.copy_location(ast.While(node.test, body, otherwise), node)
    return ast.copy_location(ast.For(node.target, node.iter, body, otherwise), node)


def without_equal_returns(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The body without conditions, and loops, that only return the same as it does at its end."""
    *before, last = body
    kept: list[ast.stmt] = [last]
    for node in reversed(before):
        unchanged = not assigned_names([node, *kept]) & read_names([last])
        if not unchanged or not _only_returns(node, ast.dump(last)):
            kept.append(node)
    return kept[::-1]


def _only_returns(node: ast.stmt, result: str) -> bool:
    """Whether a statement is a condition or loop that does nothing but return this, or jump."""
    match node:
        case ast.If() | ast.For() | ast.While():
            return all(_only_returns(each, result) for each in (*node.body, *node.orelse))
        case ast.Return():
            return ast.dump(node) == result
    return isinstance(node, ast.Pass | ast.Break | ast.Continue)
