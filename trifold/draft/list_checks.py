"""Checks of all elements of a list in one condition, in terms of a loop over the list."""

from __future__ import annotations

import ast
from collections.abc import Callable


def as_loops(node: ast.If, is_list: Callable[[ast.expr], bool]) -> list[ast.stmt]:
    """``if any(... for x in xs): raise ...``, and its like with ``not all`` and ``or``, as loops that raise.

    What a loop has checked of each element is known after it. ``is_list`` says whether an expression is a list, or
    several in a ``zip``. Empty if the condition is of another kind.
    """
    if len(node.body) != 1 or not isinstance(node.body[0], ast.Raise) or node.orelse:
        return []
    tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or) else [node.test]
    made: list[ast.stmt] = []
    found = False
    for test in tests:
        one: ast.stmt = ast.If(test, node.body, [])
        if (each := _of_each(test)) is not None and is_list(each[1].iter):
            violated, of = each
            found = True
            one = loop_over(of, ast.If(violated, node.body, []))
        made.append(ast.fix_missing_locations(ast.copy_location(one, node)))
    return made if found else []


def loop_over(of: ast.comprehension, statement: ast.stmt) -> ast.For:
    """The statement, executed for each element that the comprehension has."""
    for kept in reversed(of.ifs):
        statement = ast.If(kept, [statement], [])
    return ast.For(of.target, of.iter, [statement], [])


def _of_each(test: ast.expr) -> tuple[ast.expr, ast.comprehension] | None:
    """What must not hold for an element, if ``test`` says so of all."""
    match test:
        case ast.Call(func=ast.Name(id="any"), args=[ast.GeneratorExp(elt=element, generators=[of])], keywords=[]):
            return element, of
        case ast.UnaryOp(
            op=ast.Not(),
            operand=ast.Call(
                func=ast.Name(id="all"), args=[ast.GeneratorExp(elt=element, generators=[of])], keywords=[]
            ),
        ):
            return ast.copy_location(ast.UnaryOp(ast.Not(), element), element), of
    return None
