"""The errors in a compiler's output, each as one line at the user's own file and line.

g++ prints a column, and a template's instantiation before the error; nvcc's front end prints no column, the source line
separately, and the instantiation after the error::

    cuda_src/add.cu:10:3: error: expected ';' before 'return'             g++, and nvcc's host compiler

    cuda_src/add.cu(10): error: expected a ";"                            nvcc
        return z;
        ^
              detected during:
                instantiation of "void launch<Kernel>(...)" at line 16 of cuda_src/add.cu
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from trifold.build import unsupported

MOST_SHOWN = 5
LONGEST_MESSAGE = 240

_GXX_ERROR = re.compile(
    r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): (?:fatal |internal compiler )?error: (?P<text>.+)"
)
_GXX_CONTEXT = re.compile(
    r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+):\s+(?:recursively )?required (?:from|by)\b"
)
# Why a candidate does not match a call that none matches.
_GXX_CANDIDATE = re.compile(
    r"note:\s+(?P<why>no known conversion for argument \d+ .+|candidate expects .+ arguments?, \d+ provided"
    r"|deduced conflicting .+)$"
)
_MOST_CANDIDATES = 2
_GXX_INCLUDED = re.compile(
    r"^(?:In file included from|\s+from) (?P<file>[^:]+):(?P<line>\d+)(?::(?P<column>\d+))?[,:]$"
)
_GXX_NEW_CONTEXT = re.compile(r"^[^\s:][^:]*: (?:In |At )")
_NVCC_ERROR = re.compile(r"^(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.+)")
_NVCC_CONTEXT = re.compile(
    r"^\s+(?:\[ \d+ instantiation contexts not shown \]|.*\bat line (?P<line>\d+)(?: of (?P<file>.+))?$)"
)
_NVCC_DURING = re.compile(r"^\s+detected during")
# Errors without a source line: the first of these kinds that occurs in a log is shown.
_ELSEWHERE = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<text>undefined reference to [`'].+')",
        r"^ptxas .*; error\s*: (?P<text>.+)",
        r"^(?P<text>(?:ptxas|nvlink|nvcc) (?:error|fatal)\s*: .+)",
        r"^(?:\S*/)?(?P<text>(?:g\+\+|c\+\+|cc1plus|nvcc)[\w.-]*: (?:fatal )?error: .+)",
        r"^(?:\S*/)?(?P<text>ld: .+)",
        r"^error: (?P<text>.+)",  # nvcc's optimiser
        r"^(?P<text>(?:/bin/sh|ninja): .+)",
        r"^(?P<text>\w*Error: .+)",
    )
)
# nvcc says no more than "Killed", or nothing; ninja before 1.13 does not print the status.
_KILLED = re.compile(r"^Killed$|^FAILED: \[code=137\]|Killed signal terminated program|died due to signal 9\b")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")


@dataclass(frozen=True)
class Diagnostic:
    """One error. ``file`` is None if the compiler names none; ``line`` and ``column`` are 0 if unknown."""

    text: str
    file: Path | None = None
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if self.file is None:
            return f"error: {self.text}"
        place = "".join(f":{number}" for number in (self.line, self.column) if number)
        return f"{shown(self.file)}{place}: error: {self.text}"


def summarise(log: str, folder: Path, for_cpu: Iterable[Path] = ()) -> str:
    """At most :data:`MOST_SHOWN` errors of ``log``, one per line, at places in ``folder`` (the user's) if possible.

    If no line of the log looks like an error, its last lines are returned. ``for_cpu`` has the user's sources if g++
    compiled them for the CPU: lines with features that the CPU lacks then say so.
    """
    found = diagnostics(log, folder)
    own = [path for path in for_cpu if path.is_relative_to(folder)]
    if own:
        found = _explained(found, log, own)
    if not found:
        return (
            "\n".join(line for line in log.splitlines()[-MOST_SHOWN:] if line.strip())
            or "error: the compilers said nothing"
        )
    lines = [str(diagnostic) for diagnostic in found[:MOST_SHOWN]]
    more = len(found) - MOST_SHOWN
    return "\n".join([*lines, f"... and {more} more error{'s' if more > 1 else ''}"] if more > 0 else lines)


def diagnostics(log: str, folder: Path) -> list[Diagnostic]:
    """All errors of ``log`` in order, each once; see :func:`summarise`."""
    lines = _COLOUR.sub("", log).splitlines()
    compiler = _gxx_errors(lines, folder) + _nvcc_errors(lines, folder)
    found = [diagnostic for _, diagnostic in sorted(compiler, key=lambda pair: pair[0])] or _other_errors(lines)
    return list(dict.fromkeys(found))


def _explained(found: list[Diagnostic], log: str, sources: list[Path]) -> list[Diagnostic]:
    """The lines that use features that the CPU lacks, if they are the cause; otherwise the errors unchanged."""
    causes: list[Diagnostic] = []
    if "Assembler messages:" in log:
        causes += [Diagnostic(str(unsupported.ASSEMBLY), *place) for place in unsupported.assembly_in(sources)]
    for error in found:
        feature = unsupported.feature_at(error.file, error.line) if error.file in sources else None
        if feature is not None:
            causes.append(replace(error, text=str(feature), column=0))
    return list(dict.fromkeys(causes)) or found


def shown(path: Path) -> str:
    """``path`` relative to the current folder if it is inside, else absolute."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return os.fspath(path)


def _gxx_errors(lines: list[str], folder: Path) -> list[tuple[int, Diagnostic]]:
    found = []
    why: list[str] = []  # of the last error
    caller: Diagnostic | None = None  # the innermost line of the user's that instantiates what is being compiled
    includer: Diagnostic | None = None  # the innermost line of the user's that includes it
    for number, line in enumerate(lines):
        if context := _GXX_CONTEXT.match(line):
            place = _placed(context, "")
            caller = caller or (place if _inside(place, folder) else None)
        elif error := _GXX_ERROR.match(line):
            why = []
            found.append((number, _at_user(_placed(error, error["text"]), caller or includer, folder), why))
        elif (candidate := _GXX_CANDIDATE.search(line)) and candidate["why"] not in why:
            why.append(candidate["why"])
        elif included := _GXX_INCLUDED.match(line):
            place = _placed(included, "")
            caller = None
            includer = None if line.startswith("In file") else includer
            includer = includer or (place if _inside(place, folder) else None)
        elif _GXX_NEW_CONTEXT.match(line):
            caller = None
    return [(number, _with_reasons(error, why)) for number, error, why in found]


def _with_reasons(error: Diagnostic, why: list[str]) -> Diagnostic:
    """``error`` with why the first candidates of its call do not match, if it has any."""
    return replace(error, text=f"{error.text}: {', or '.join(why[:_MOST_CANDIDATES])}") if why else error


def _nvcc_errors(lines: list[str], folder: Path) -> list[tuple[int, Diagnostic]]:
    found = []
    for number, line in enumerate(lines):
        error = _NVCC_ERROR.match(line)
        if error is None:
            continue
        here = Diagnostic(_cut(error["text"]), Path(error["file"]), int(error["line"]))
        rest = lines[number + 1 :]
        here = replace(here, column=_nvcc_column(rest))
        found.append((number, _at_user(here, _nvcc_caller(rest, here, folder), folder)))
    return found


def _nvcc_column(rest: list[str]) -> int:
    # two blanks, then the source line; beneath it a caret
    is_caret = len(rest) > 1 and rest[1].strip() == "^"
    return rest[1].index("^") - 1 if is_caret else 0


def _nvcc_caller(rest: list[str], error: Diagnostic, folder: Path) -> Diagnostic | None:
    start = next((i for i, line in enumerate(rest[:4]) if _NVCC_DURING.match(line)), None)
    if start is None:
        return None
    for line in rest[start:]:
        context = _NVCC_CONTEXT.match(line)
        if context is None and not _NVCC_DURING.match(line):
            return None
        if context is not None and context["line"]:
            place = Diagnostic("", Path(context["file"]) if context["file"] else error.file, int(context["line"]))
            if _inside(place, folder):
                return place
    return None


def _other_errors(lines: list[str]) -> list[Diagnostic]:
    if any(_KILLED.search(line) for line in lines):
        return [
            Diagnostic("a compiler was killed (signal 9), as Linux does where memory runs out: build fewer at once")
        ]
    for pattern in _ELSEWHERE:
        found = [Diagnostic(_cut(match["text"])) for line in lines if (match := pattern.search(line))]
        if found:
            return found
    return []


def _placed(match: re.Match[str], text: str) -> Diagnostic:
    return Diagnostic(_cut(text), Path(match["file"]), int(match["line"]), int(match["column"] or 0))


def _at_user(error: Diagnostic, caller: Diagnostic | None, folder: Path) -> Diagnostic:
    """``error``, if it is in a header that is not the user's, moved to the user's line that led to it."""
    if caller is None or _inside(error, folder):
        return error
    return replace(caller, text=error.text)


def _inside(place: Diagnostic, folder: Path) -> bool:
    return place.file is not None and place.file.is_relative_to(folder)


def _cut(text: str) -> str:
    """Without the template arguments that g++ and nvcc append, and at most a few lines long."""
    start = text.find(" [with ")
    while start >= 0:
        depth, end = 0, start
        for end in range(start, len(text)):
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            if depth == 0 and end > start:
                break
        text = text[:start] + text[end + 1 :]
        start = text.find(" [with ")
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}..."
