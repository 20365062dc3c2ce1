"""The C++ files that a port's libraries are made of: its own, and the CPU's engine."""

from __future__ import annotations

import os
from pathlib import Path

from trifold.build.headers import included
from trifold.build.sources import INCLUDE_ROOT
from trifold.errors import GraduationError
from trifold.workspace import OpFiles

ENGINE_ROOT = INCLUDE_ROOT.parent / "engine"

# Used only by checked builds, for their memory accesses.
_LEFT_OUT = {"instrumentation.cpp"}


def engine_files() -> dict[str, Path]:
    """The sources of the runtime for kernels on the CPU, by their paths in a graduated package's ``csrc/engine``."""
    folders = ("core", "cpu")
    found = [path for folder in folders for path in sorted((ENGINE_ROOT / folder).iterdir())]
    if not found:
        raise GraduationError(f"{ENGINE_ROOT} has no sources: the installation is incomplete", "install trifold again")
    return {
        str(path.relative_to(ENGINE_ROOT)): path
        for path in found
        if path.suffix in (".h", ".cpp") and path.name not in _LEFT_OUT
    }


def own_sources(files: OpFiles) -> tuple[Path, ...]:
    """Binding and header, and the files in or below their folder that these include, directly or not.

    Raises:
        GraduationError: one of them is elsewhere, and has no place in the package.
    """
    folder = files.binding.parent
    found: dict[Path, None] = {}
    waiting = [files.binding, files.header]
    while waiting:
        source = waiting.pop()
        if source in found:
            continue
        found[source] = None
        for name in included(source):
            candidates = (Path(os.path.normpath(place / name)) for place in (source.parent, folder))
            path = next((path for path in candidates if path.is_file()), None)
            if path is None:  # of trifold, CUDA, torch or the system
                continue
            if not path.is_relative_to(folder):
                raise GraduationError(
                    f"{source} includes {name}, which a graduated package does not have",
                    f"move that file into {folder}, or what is needed of it into {files.header.name}",
                )
            waiting.append(path)
    return tuple(sorted(found))
