"""Traversal of the C++ tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from trifold.draft import cpp
from trifold.draft.tree import names_of_fields


def walk(node: cpp.Expr | cpp.Stmt) -> Iterator[cpp.Expr | cpp.Stmt]:
    """The node, and all expressions and statements within it."""
    yield node
    for name in names_of_fields(node):
        value = getattr(node, name)
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, (cpp.Expr, cpp.Stmt)):
                yield from walk(each)


def flat(body: Iterable[cpp.Stmt]) -> Iterator[cpp.Stmt]:
    """The statements of a list, with each group replaced by its statements."""
    for each in body:
        if isinstance(each, cpp.Several):
            yield from flat(each.body)
        else:
            yield each


def bodies(each: cpp.Stmt) -> list[list[cpp.Stmt]]:
    """The lists of statements of a loop or condition."""
    return [list(flat(getattr(each, name))) for name in ("body", "otherwise") if hasattr(each, name)]


def names(node: cpp.Expr | cpp.Stmt) -> set[str]:
    """The names that it reads or assigns: threadIdx for threadIdx.x; without those that it declares."""
    texts = [each.text for each in walk(node) if isinstance(each, cpp.Name) and not each.text.startswith('"')]
    return {text.partition(".")[0] for text in texts}


def assigned_names(node: cpp.Stmt) -> set[str]:
    assigned = [each.target for each in walk(node) if isinstance(each, cpp.Assign)]
    return {each.text for each in assigned if isinstance(each, cpp.Name)}


def rebuilt(node: Any, change: Callable[[Any], Any]) -> Any:
    """A copy in which ``change`` is applied to each expression and statement, the innermost first."""
    if isinstance(node, (list, tuple)):
        return type(node)(rebuilt(each, change) for each in node)
    if not isinstance(node, (cpp.Expr, cpp.Stmt)):
        return node
    made = {name: rebuilt(getattr(node, name), change) for name in names_of_fields(node)}
    return change(replace(node, **made))
