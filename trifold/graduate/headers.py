"""The C++ files that a port's libraries are made of: its own, trifold's headers that it uses, and the CPU's engine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from trifold.build.sources import CPU_INCLUDE_ROOT, INCLUDE_ROOT
from trifold.errors import GraduationError
from trifold.workspace import OpFiles

ENGINE_ROOT = INCLUDE_ROOT.parent / "engine"

# What only checked builds and whole programs call: instrumented accesses, their faults, a program's own launches.
_LEFT_OUT = {"instrumentation.cpp", "faults.cpp", "faults.h", "real_functions.cpp", "program_launch.cpp"}
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


def headers_of(sources: Iterable[Path]) -> dict[str, Path]:
    """The headers of trifold that ``sources`` include, and those that these include, by their paths below include/."""
    found: dict[str, Path] = {}
    waiting = list(sources)
    while waiting:
        for name in _included(waiting.pop()):
            for root in (INCLUDE_ROOT, CPU_INCLUDE_ROOT):
                path = root / name
                key = str(path.relative_to(INCLUDE_ROOT))
                if path.is_file() and key not in found:
                    found[key] = path
                    waiting.append(path)
    return dict(sorted(found.items()))


def require_own_headers(files: OpFiles) -> None:
    """Raise ``GraduationError`` where the C++ includes a file of the workspace that is not one of the op's own."""
    for source in (files.binding, files.header):
        for name in _included(source):
            path = (source.parent / name).resolve()
            if path.is_file() and path not in (files.header.resolve(), files.binding.resolve()):
                raise GraduationError(
                    f"{source} includes {name}, which a graduated package does not have",
                    f"move what it needs into {files.header.name}: an op is its five files",
                )


def _included(source: Path) -> list[str]:
    text = source.read_text(encoding="utf-8", errors="surrogateescape")
    return [match[1] or match[2] for match in _INCLUDE.finditer(text)]
