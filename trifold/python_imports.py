"""Finds the files that a Python file imports. Nothing is executed."""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Listing = Callable[[Path], frozenset[str]]

_SUFFIXES = tuple(importlib.machinery.all_suffixes())  # .py, and those of compiled modules


def imported(path: Path, content: bytes, folders: Sequence[Path], listing: Listing) -> Iterator[Path]:
    """The files that an import of ``path`` may execute, each ``import_module("a.b")`` and ``__init__`` among them.

    Args:
        path, content: a Python file. One that cannot be parsed imports nothing.
        folders: where modules are looked for. Those of a relative import are relative to the file.
        listing: the names in a folder, such as :func:`names_in`.
    """
    for level, name, members in _imports(content):
        if level > len(path.parents):
            continue
        module = [part for part in name.split(".") if part]
        for start in folders if level == 0 else (path.parents[level - 1],):
            if level > 0:
                yield from _module(start, "__init__", listing)
            for member in members:
                yield from _modules(start, [*module, *member], listing)


def shared_modules(path: Path) -> dict[Path, bytes]:
    """The contents of the Python files that ``path`` imports by a relative import, directly or not.

    They are in or below its folder, such as ``_name.py`` of ``from ._name import ...``. The folder's own
    ``__init__.py`` is not among them: it is not executed (:func:`trifold.workspace.import_file`).
    """
    folder, found, waiting = path.parent, dict[Path, bytes](), [path]
    while waiting:
        source = waiting.pop()
        if source in found or source == folder / "__init__.py":
            continue
        try:
            found[source] = source.read_bytes()
        except OSError:
            continue
        named = imported(source, found[source], (), names_in)
        waiting += (other for other in named if other.suffix == ".py" and other.is_relative_to(folder))
    found.pop(path, None)
    return dict(sorted(found.items()))


def names_in(folder: Path) -> frozenset[str]:
    """The names in ``folder``; empty if it cannot be read."""
    try:
        return frozenset(os.listdir(folder))
    except (OSError, ValueError):
        return frozenset()


@functools.lru_cache(maxsize=512)
def _imports(content: bytes) -> tuple[tuple[int, str, tuple[tuple[str, ...], ...]], ...]:
    """For each import the number of dots before the name, the name, and the names imported from it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own imports: seen by whoever executes it
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(found for node in ast.walk(tree) for found in _names_of_import(node))


def _names_of_import(node: ast.AST) -> Iterator[tuple[int, str, tuple[tuple[str, ...], ...]]]:
    match node:
        case ast.Import():
            for alias in node.names:
                yield 0, alias.name, ((),)
        case ast.ImportFrom():
            yield node.level, node.module or "", tuple((alias.name,) for alias in node.names)
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            bare = name.lstrip(".")
            yield len(name) - len(bare), bare, ((),)


def _modules(folder: Path, parts: Sequence[str], listing: Listing) -> Iterator[Path]:
    """The files in ``folder`` that importing the module ``parts`` executes; a ``*`` imports all of a package."""
    for part in parts:
        if part == "*":
            yield from (folder / name for name in listing(folder) if name.endswith(_SUFFIXES))
            return
        yield from _module(folder, part, listing)
        if part not in listing(folder):
            return
        folder = folder / part
        yield from _module(folder, "__init__", listing)


def _module(folder: Path, name: str, listing: Listing) -> Iterator[Path]:
    names = listing(folder)
    return (folder / f"{name}{suffix}" for suffix in _SUFFIXES if f"{name}{suffix}" in names)
