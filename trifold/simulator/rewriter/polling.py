"""Loops that poll: they end when another thread has written something, so they must let other threads run.

A loop polls if one of its exits depends on a read of memory (or an atomic) at a location that is the same in every
iteration. A loop whose location changes in every iteration (a grid-stride loop, a search, a linked list), or that
writes the location itself, ends by its own work.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Loop = ast.While | ast.For
_Assignment = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr


def polling_loops(function: ast.AST, reads_memory: Callable[[ast.AST], bool]) -> set[Loop]:
    """The loops of ``function`` that poll; ``reads_memory`` judges one expression, without its parts."""
    loops = [node for node in ast.walk(function) if isinstance(node, Loop)]
    return {loop for loop in loops if _polls(loop, reads_memory)}


@dataclass(frozen=True)
class _Step:
    """A part of a loop's body, the conditions under which it runs, and whether it runs in every iteration."""

    node: ast.AST
    conditions: tuple[ast.expr, ...]
    always: bool


def _polls(loop: Loop, reads_memory: Callable[[ast.AST], bool]) -> bool:
    steps = list(_steps(loop))
    exits = [condition for step in steps if _is_exit(step.node) for condition in step.conditions]
    if isinstance(loop, ast.While):
        exits.append(loop.test)
    causes = _causes(exits, steps)
    written = {ast.unparse(target) for step in steps if step.always for target in _stored_elements(step.node)}
    moving = _moving(loop, steps)
    for cause in causes:
        for node in ast.walk(cause):
            if reads_memory(node) and ast.unparse(node) not in written and not _names(node) & moving:
                return True
    return False


def _steps(loop: Loop) -> Iterator[_Step]:
    """The simple statements and assignments of a loop's iterations, including those of inner loops."""
    for inner in ast.walk(loop.test if isinstance(loop, ast.While) else loop.iter):
        if isinstance(inner, ast.NamedExpr):
            yield _Step(inner, (), isinstance(loop, ast.While))
    yield from _block(loop.body, (), True, 0)


def _block(body: list[ast.stmt], conditions: tuple[ast.expr, ...], always: bool, depth: int) -> Iterator[_Step]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.If):
            yield from _expressions(statement.test, conditions, always)
            for branch in (statement.body, statement.orelse):
                yield from _block(branch, (*conditions, statement.test), False, depth)
        elif isinstance(statement, Loop):
            head = statement.test if isinstance(statement, ast.While) else statement.iter
            yield from _expressions(head, conditions, always)
            yield _Step(statement, conditions, False)  # a for loop assigns its target
            yield from _block(statement.body, (*conditions, head), False, depth + 1)
            yield from _block(statement.orelse, conditions, False, depth)
        elif isinstance(statement, ast.With):
            yield from _block(statement.body, conditions, always, depth)
        elif isinstance(statement, ast.Match):
            for case in statement.cases:
                yield from _block(case.body, (*conditions, statement.subject), False, depth)
        elif isinstance(statement, ast.Break) and depth:
            pass  # leaves an inner loop
        else:
            yield _Step(statement, conditions, always)
            yield from _expressions(statement, conditions, always)
        always = always and not (depth == 0 and _continues(statement))


def _expressions(node: ast.AST, conditions: tuple[ast.expr, ...], always: bool) -> Iterator[_Step]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.NamedExpr):
            yield _Step(inner, conditions, always)


def _continues(statement: ast.stmt) -> bool:
    """Whether a ``continue`` of the loop around it may skip what follows."""
    if isinstance(statement, ast.Continue):
        return True
    if isinstance(statement, Loop | ast.FunctionDef):
        return False
    return any(_continues(inner) for inner in ast.iter_child_nodes(statement) if isinstance(inner, ast.stmt))


def _is_exit(node: ast.AST) -> bool:
    return isinstance(node, ast.Break | ast.Return)


def _causes(exits: list[ast.expr], steps: list[_Step]) -> list[ast.expr]:
    """All expressions that determine whether the loop ends: the exits, and the values assigned to names in them."""
    causes: list[ast.expr] = []
    queue = list(exits)
    names: set[str] = set()
    while queue:
        cause = queue.pop()
        causes.append(cause)
        for name in _names(cause) - names:
            names.add(name)
            for step in steps:
                if name in _assigned(step.node):
                    queue.extend(step.conditions)
                    if (value := _value(step.node)) is not None:
                        queue.append(value)
    return causes


def _moving(loop: Loop, steps: list[_Step]) -> set[str]:
    """Names whose value changes in every iteration: a loop's own target, and values computed from an earlier
    iteration."""
    assigned = {name for step in steps for name in _assigned(step.node)}
    moving = _names(loop.target) if isinstance(loop, ast.For) else set()
    for step in steps:
        if not step.always:
            continue
        value = _value(step.node)
        from_earlier = isinstance(step.node, ast.AugAssign) or (value is not None and bool(_names(value) & assigned))
        if from_earlier:
            moving |= _assigned(step.node)
    return moving


def _assigned(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr | ast.For):
        targets = [node.target]
    else:
        return set()
    # The base and index of a stored element are read, not assigned.
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name) and _stores(n)}


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _value(node: ast.AST) -> ast.expr | None:
    if isinstance(node, _Assignment):
        return node.value
    return node.iter if isinstance(node, ast.For) else None


def _stored_elements(node: ast.AST) -> Iterator[ast.Subscript]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    for target in targets:
        if isinstance(target, ast.Subscript):
            yield target


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
