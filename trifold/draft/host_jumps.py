"""``break`` and ``continue`` in loops that are unrolled: what they skip becomes the other branch of their condition."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def jumps(body: Sequence[ast.stmt]) -> Iterator[ast.Break | ast.Continue]:
    """Those that leave, or continue, the loop of this body; not those of loops within it."""
    for node in body:
        if isinstance(node, (ast.Break, ast.Continue)):
            yield node
        elif not isinstance(node, (ast.For, ast.While)):
            for name in ("body", "orelse"):
                yield from jumps(getattr(node, name, []))


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether control may leave the function from here."""
    for node in body:
        inner = [] if isinstance(node, ast.FunctionDef) else [getattr(node, name, []) for name in ("body", "orelse")]
        if isinstance(node, ast.Return) or any(map(returns, inner)):
            return True
    return False


def without_jumps(body: Sequence[ast.stmt], following: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The body, and the iterations ``following`` it, as statements without jumps of this loop."""
    done: list[ast.stmt] = []
    for number, node in enumerate(body):
        if isinstance(node, ast.Break):
            return done
        if isinstance(node, ast.Return):
            return [*done, node]
        if isinstance(node, ast.Continue):
            return [*done, *following]
        if isinstance(node, ast.If) and any(jumps([node])):
            rest = body[number + 1 :]
            branches = [without_jumps([*branch, *rest], following) for branch in (node.body, node.orelse)]
            made = ast.If(node.test, branches[0] or [ast.copy_location(ast.Pass(), node)], branches[1])
            return [*done, ast.copy_location(made, node)]
        done.append(node)
    return [*done, *following]
