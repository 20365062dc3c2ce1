"""The workspace files that a verdict depends on: an op's five files and all that they include or import from there.

A certificate has their hashes, taken before the run, and is valid while they are the same.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trifold.acceptance import configured_suppressions
from trifold.build.sources import CPU_INCLUDE_ROOT, INCLUDE_ROOT
from trifold.python_imports import imported, names_in
from trifold.workspace import OpFiles, Workspace

_TOOLKIT = Path(__file__).resolve().parent

# A preprocessor directive of any name: the text after the #, including lines joined by a backslash or a comment.
_DIRECTIVE = re.compile(rb"^(?:[^\n]*\*/)?[ \t]*(?:#|%:)((?:\\\r?\n|/\*[\s\S]*?\*/|[^\n])*)", re.MULTILINE)
_JOINED = re.compile(rb"\\\r?\n")
_NAME = re.compile(rb'"([^"\n]+)"|<([^<>\n]+)>|([\w/+-]*\.[\w./+-]*)')


def source_hashes(workspace: Workspace, files: OpFiles, toolkit: Path = _TOOLKIT) -> dict[str, str]:
    """SHA-256 of the op's five files and of all that they include or import from the workspace, directly or not.

    C++: each name in a preprocessor directive (``#include``, ``__has_include``, ``#define``) that is a file in the
    folder of the file with the directive, or of the binding; also in an inactive branch. Headers of trifold, CUDA,
    torch and the system do not count, but a file in the binding's folder that replaces one of trifold's does.

    Python: each ``import``, also inside a function, and ``import_module("a.b")``, with the ``__init__`` of each package
    on the way. Modules are looked for in the workspace's root, the current folder, the file's own folder and the part
    of ``sys.path`` inside the workspace. All that are found count, whichever of them Python would use.

    Files outside the workspace do not count, nor do packages installed in an environment inside it, nor the toolkit in
    its own repository (see :func:`~trifold.verification.certificate.toolkit_digest`). Files that code opens or executes
    by a path of its own are not seen. Nothing is executed; a Python file that cannot be parsed counts only by its own
    hash, and a missing file not at all.

    The workspace's suppressions (:mod:`trifold.acceptance`) count: they determine which findings fail.

    Args:
        workspace, files: the op and where it is.
        toolkit: the folder of the package ``trifold``, which does not count.

    Returns:
        By the path relative to the workspace, sorted.
    """
    root = Path(os.path.abspath(workspace.root))
    folder = files.binding.parent
    folders = _import_folders(root)
    listing = functools.cache(names_in)
    file_at = functools.cache(functools.partial(_file_of, root, toolkit))

    def within(paths: Iterable[Path]) -> Iterator[Path]:
        return (file for path in dict.fromkeys(paths) if (file := file_at(path)) is not None)

    found: dict[Path, str] = {}
    waiting = [*files, *within(folder / name for name in _toolkit_headers())]
    if (suppressions := configured_suppressions(workspace.root)) is not None:
        waiting.append(Path(os.path.abspath(suppressions)))
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        try:
            content = path.read_bytes()
        except OSError:
            continue  # missing, or removed meanwhile
        found[path] = hashlib.sha256(content).hexdigest()
        if path.suffix == ".py":
            waiting += within(imported(path, content, [*dict.fromkeys((*folders, path.parent))], listing))
        elif b"\0" not in content:  # not text: a compiled module, or data
            waiting += within(_included(path, content, folder))
    return {os.path.relpath(path, root): found[path] for path in sorted(found)}


def changed_sources(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """The files that are in only one of two results of :func:`source_hashes`, or have another hash there."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _file_of(root: Path, toolkit: Path, path: Path) -> Path | None:
    """The file of the workspace at ``path``, under one name; None if there is none, or it is the toolkit's."""
    if not os.path.isfile(path):
        return None
    real = os.path.realpath(path)
    plain = os.path.normpath(path)  # wrong if ".." follows a link to a folder
    found = Path(plain if os.path.realpath(plain) == real else real)
    return found if found.is_relative_to(root) and not Path(real).is_relative_to(toolkit) else None


# ----------------------------------------------------------------------------------------------------------------- C++


@functools.cache
def _toolkit_headers() -> tuple[str, ...]:
    """The names by which the dialect's headers are included: the compiler looks in the binding's folder first."""
    return tuple(
        sorted(
            str(path.relative_to(folder))
            for folder in (INCLUDE_ROOT, CPU_INCLUDE_ROOT)
            for path in folder.rglob("*")
            if path.is_file()
        )
    )


def _included(path: Path, content: bytes, folder: Path) -> Iterator[Path]:
    for directive in _DIRECTIVE.finditer(content):
        for match in _NAME.finditer(_JOINED.sub(b"", directive[1])):
            name = os.fsdecode(match[1] or match[2] or match[3])
            yield path.parent / name
            yield folder / name


# -------------------------------------------------------------------------------------------------------------- Python


def _import_folders(root: Path) -> tuple[Path, ...]:
    """The workspace, and the folders inside it where Python looks for modules, here or in a worker."""
    given = (Path(os.path.abspath(folder)) for folder in (os.curdir, *sys.path))
    inside = (folder for folder in given if folder.is_relative_to(root))
    return tuple(dict.fromkeys(folder for folder in (root, *inside) if not _is_environment(folder.relative_to(root))))


def _is_environment(folder: Path) -> bool:
    return any(part == "site-packages" or part.startswith(".") for part in folder.parts)
