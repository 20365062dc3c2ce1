"""Splits a prototype's file into the kernels, which run in the op's process, and the reference, which runs in the
judge.

Both keep the line numbers of the file.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from trifold.errors import WorkspaceError

REFERENCE = "reference"
_ABSENT = "the reference is the judge's: it cannot be called where the op runs"


def without_reference(path: Path) -> CodeType:
    """The file with a ``reference`` that raises when it is called."""
    tree = _parsed(path)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == REFERENCE:
            raising = ast.parse(f"raise RuntimeError({_ABSENT!r})").body[0]
            node.body = [ast.copy_location(raising, node.body[0])]
    return _compiled(tree, path)


def reference_alone(path: Path) -> CodeType:
    """Only ``reference`` and what it uses: imports, functions, classes and assignments at the top of the file.

    No other statement of the file runs, so that code that the op runs when it is imported does not run in its judge.

    Raises:
        WorkspaceError: the reference uses a kernel or another form of the op, with which it would always agree.
    """
    tree = _parsed(path)
    binding: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in _bound(node):
            binding.setdefault(name, []).append(node)
    kept: set[ast.stmt] = {
        node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    }
    wanted = [REFERENCE]
    seen = set(wanted)
    while wanted:
        for node in binding.get(wanted.pop(), ()):
            if node in kept:
                continue
            kept.add(node)
            names = _used(node) - seen
            seen |= names
            wanted += names
    for node in kept:
        if form := _other_form(node):
            raise WorkspaceError(
                f"{path}:{node.lineno}: the reference uses {form}, and agrees with it whatever that computes",
                "write the reference in PyTorch alone",
            )
    tree.body = [_only(node, seen) for node in tree.body if node in kept]
    return _compiled(tree, path)


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _compiled(tree: ast.Module, path: Path) -> CodeType:
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


def _other_form(node: ast.stmt) -> str:
    """The name of the kernel that a statement defines, or ``trifold.load`` if it uses that; else empty."""
    match node:
        case ast.FunctionDef(name=name, decorator_list=decorators):
            # @cuda.jit, @cuda.jit(...), @jit
            heads = [one.func if isinstance(one, ast.Call) else one for one in decorators]
            if any(ast.unparse(head).rpartition(".")[2] == "jit" for head in heads):
                return f"the kernel {name}"
        case ast.ImportFrom(module="trifold", names=names) if any(alias.name == "load" for alias in names):
            return "trifold.load"
    loads = (child for child in ast.walk(node) if isinstance(child, ast.Attribute) and child.attr == "load")
    return "trifold.load" if any(ast.unparse(child) == "trifold.load" for child in loads) else ""


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a file binds."""
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            yield from (
                child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
            )
        case ast.If() | ast.Try() | ast.With():
            for inner in ast.iter_child_nodes(node):
                if isinstance(inner, ast.stmt):
                    yield from _bound(inner)
        case _:
            return


def _used(node: ast.stmt) -> set[str]:
    """The file's global names that a top-level statement uses, without a function's local variables."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return set()
    tables = [symtable.symtable(ast.unparse(node), "", "exec")]
    found: set[str] = set()
    while tables:
        table = tables.pop()
        at_top = table.get_type() == "module"
        found |= {symbol.get_name() for symbol in table.get_symbols() if at_top or symbol.is_global()}
        tables += table.get_children()
    return found


def _only(node: ast.stmt, names: set[str]) -> ast.stmt:
    """An import reduced to ``names``: Numba is slow to import, and the judge does not need it."""
    if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__":
        node.names = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in names]
    return node
