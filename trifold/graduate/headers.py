"""The C++ files that a port's libraries are made of: its own, trifold's headers that it uses, and the CPU's engine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from trifold.build import inline_ptx
from trifold.build.sources import CPU_INCLUDE_ROOT, INCLUDE_ROOT
from trifold.errors import GraduationError
from trifold.workspace import OpFiles

ENGINE_ROOT = INCLUDE_ROOT.parent / "engine"

# What only checked builds and whole programs call: instrumented accesses, a program's own launches.
_LEFT_OUT = {"instrumentation.cpp", "real_functions.cpp", "program_launch.cpp"}
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


def engine_files() -> dict[str, Path]:
    """The sources of what runs kernels on the CPU, by their paths in a graduated package's ``csrc/engine``."""
    folders = ("core", "host")
    found = [path for folder in folders for path in sorted((ENGINE_ROOT / folder).iterdir())]
    if not found:
        raise GraduationError(f"{ENGINE_ROOT} has no sources: the installation is not whole", "install trifold again")
    return {
        str(path.relative_to(ENGINE_ROOT)): path
        for path in found
        if path.suffix in (".h", ".cpp") and path.name not in _LEFT_OUT
    }


def headers_of(sources: Iterable[Path], include: Path = INCLUDE_ROOT) -> dict[str, Path]:
    """The headers of trifold that ``sources`` include, and those that these include, by their paths in ``include``.

    For the CPU, inline PTX in ``sources`` includes a header, too.
    """
    found: dict[str, Path] = {}
    waiting = list(sources)
    translated = (inline_ptx.rewrite(_text(source)) for source in waiting)
    names = [inline_ptx.HEADER] if any(map(inline_ptx.needs_header, translated)) else []
    while waiting or names:
        names += _included(waiting.pop()) if waiting else []
        while names:
            name = names.pop()
            for root in (include, include / CPU_INCLUDE_ROOT.name):
                path = root / name
                key = str(path.relative_to(include))
                if path.is_file() and key not in found:
                    found[key] = path
                    waiting.append(path)
    return dict(sorted(found.items()))


def own_sources(files: OpFiles) -> tuple[Path, ...]:
    """Binding and header, and the files beside or below them that these include, directly or not.

    Raises:
        GraduationError: one of them is a file elsewhere, for which the package has no place.
    """
    folder = files.binding.parent
    found: dict[Path, None] = {}
    waiting = [files.binding, files.header]
    while waiting:
        source = waiting.pop()
        if source in found:
            continue
        found[source] = None
        for name in _included(source):
            beside = (Path(os.path.normpath(place / name)) for place in (source.parent, folder))
            path = next((path for path in beside if path.is_file()), None)
            if path is None:  # of trifold, CUDA, torch or the system
                continue
            if not path.is_relative_to(folder):
                raise GraduationError(
                    f"{source} includes {name}, which a graduated package does not have",
                    f"move that file into {folder}, or what is needed of it into {files.header.name}",
                )
            waiting.append(path)
    return tuple(sorted(found))


def _included(source: Path) -> list[str]:
    return [match[1] or match[2] for match in _INCLUDE.finditer(_text(source))]


def _text(source: Path) -> str:
    return source.read_text(encoding="utf-8", errors="surrogateescape")
