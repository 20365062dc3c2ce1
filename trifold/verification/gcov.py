"""Reads the counters of a port's library with ``gcov --json-format``, from the g++ that built it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trifold.build.cache import NOTES_SUFFIX
from trifold.build.toolchain import find_gxx
from trifold.errors import ToolchainError


@dataclass
class Line:
    """A line of source, over all instances of its templates: reached if any instance of it was.

    Attributes:
        ways: for each branch, whether it was taken. Instances of one shape share them; ``if constexpr`` makes several.
    """

    reached: bool = False
    ways: dict[tuple[int, int], bool] = field(default_factory=dict)

    @property
    def branches(self) -> int:
        return len(self.ways)

    @property
    def branches_reached(self) -> int:
        return sum(self.ways.values())


def find_gcov() -> Path:
    """The gcov of the g++ that builds ports: in the same folder, with the same version in its name.

    Raises:
        ToolchainError: there is none.
    """
    gxx = find_gxx()
    for compiler in (gxx, gxx.resolve()):
        name = compiler.name.replace("g++", "gcov").replace("c++", "gcov")
        found = shutil.which(name, path=str(compiler.parent)) if name != compiler.name else None
        if found is not None:
            return Path(found)
    raise ToolchainError(
        f"the coverage of ports needs gcov, and there is none beside {gxx}", "apt-get install gcc, or set CXX to a g++"
    )


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process whose library counts: at its end, the counters are written into ``folder``."""
    # GCOV_PREFIX_STRIP removes so many components of the path of the object file at build time.
    return {"GCOV_PREFIX": str(folder), "GCOV_PREFIX_STRIP": "999"}


def keep_notes(library: Path, folder: Path) -> None:
    """Copy the notes that gcov needs about ``library`` to where the counters are written."""
    for notes in library.parent.glob(f"*{NOTES_SUFFIX}"):
        shutil.copy(notes, folder)


def counts(folder: Path, sources: Sequence[Path]) -> dict[Path, dict[int, Line]]:
    """For each of ``sources``: its lines that have code, by number.

    Raises:
        ToolchainError: gcov failed.
    """
    lines: dict[Path, dict[int, Line]] = {path: {} for path in sources}
    by_real_path = {path.resolve(): path for path in sources}
    for data in sorted(folder.glob("*.gcda")):
        for file in _run(find_gcov(), data)["files"]:
            path = by_real_path.get(Path(file["file"]).resolve())
            if path is None:
                continue
            text = path.read_text(encoding="utf-8").splitlines()
            for instance in file["lines"]:
                if not _holds_code(text, instance["line_number"]):
                    continue
                line = lines[path].setdefault(instance["line_number"], Line())
                line.reached |= instance["count"] > 0
                taken = [way["count"] > 0 for way in conditions(instance["branches"])]
                for position, way in enumerate(taken):
                    key = (len(taken), position)
                    line.ways[key] = line.ways.get(key, False) or way
    return lines


def _holds_code(text: Sequence[str], number: int) -> bool:
    """Whether the line is a bracket alone: its code is destructors, on return or during an exception."""
    return number <= len(text) and any(character.isalnum() for character in text[number - 1])


def conditions(branches: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The branches, without those of calls that can throw. Such a call has two: to the next statement, then to the
    handler."""
    kept: list[dict[str, Any]] = []
    for branch in branches:
        if branch["throw"]:
            kept = kept[:-1]
        else:
            kept.append(branch)
    return kept


def _run(gcov: Path, data: Path) -> dict[str, Any]:
    command = [str(gcov), "--json-format", "--stdout", "--branch-probabilities", data.name]
    done = subprocess.run(command, cwd=data.parent, env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout:
        said = done.stderr.strip().splitlines()
        raise ToolchainError(
            f"{gcov} fails: {said[-1] if said else f'status {done.returncode}'}", "install the gcov of this g++"
        )
    result: dict[str, Any] = json.loads(done.stdout)
    return result
