"""The sources of a record of results: a digest of each file, written into the record when it is measured.

A record is current while the files have the same digests. They cover code alone: comments, docstrings, blanks and line
ends do not count, so that editing them keeps a measurement valid. (Comparing machine code would be exact, but takes
minutes of the same nvcc wherever the question is asked.)

The sources of a record of ops are those that ran: their files and the headers, wiring and compiler flags with which
these are built. The measuring program is not among them: a better clock changes no kernel.
"""

from __future__ import annotations

import functools
import hashlib
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from trifold.build.headers import headers_of
from trifold.source_hashes import source_hashes
from trifold.workspace import Workspace

Sources = dict[str, str]

TOOLKIT = Path(__file__).resolve().parent
_DIGITS = 16

# Used by each op besides its own files.
_WIRING = ("port/*.py", "build/recipe.py")
_PROTOTYPES = ("prototype/*.py", "device/*.py")
_CHECKS = ("verification/checks/*.py", "verification/tolerance.py", "verification/comparison.py")
# Included by <trifold/cuda.cuh> for g++ only.
_FOR_CPU = ("trifold/cpu", "cuda_for_cpu/", "trifold/host")  # the last in older trees

_CPP = (".cu", ".cuh", ".h", ".cpp")
_TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/|\\\n)
    |(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
    |\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*|[A-Za-z_]\w*
    |(?P<line>\n)|(?P<blank>[^\S\n]+)|.""",
    re.DOTALL | re.VERBOSE,
)


def of_ops(
    workspace: Workspace,
    ops: Iterable[str],
    device: Literal["cpu", "cuda"],
    *,
    prototypes: bool = True,
    checked: bool = False,
    toolkit: Path = TOOLKIT,
) -> Sources:
    """The sources of a run of ops on ``device``.

    Args:
        workspace, ops: their bindings, headers, ports and all files of the workspace that these include or import
        count.
        device: on ``cuda`` the headers that are only for g++ do not count.
        prototypes: whether they ran too.
        checked: whether they were verified: then their specs and the checks count, and the headers for g++.
        toolkit: the folder of the package ``trifold``.

    Returns:
        By path, sorted. Files of the workspace by their path in it, the toolkit's as ``trifold/…``.
    """
    found: dict[str, Path] = {}
    cpp: list[Path] = []
    for op in ops:
        files = workspace.files(op)
        apart = {*(() if prototypes else (files.prototype,)), *(() if checked else (files.spec,))}
        names = source_hashes(workspace, files, toolkit)
        paths = {name: workspace.root / name for name in names}
        # The toolkit's files are not among them: the relevant ones are added below.
        own = {name: path for name, path in paths.items() if path not in apart}
        found |= own
        cpp += [path for path in own.values() if path.suffix in _CPP]
    skipped = () if checked or device == "cpu" else _FOR_CPU
    headers = headers_of(cpp, toolkit / "include")
    found |= {f"trifold/include/{name}": path for name, path in headers.items() if not name.startswith(skipped)}
    patterns = (*_WIRING, *(_PROTOTYPES if prototypes else ()), *(_CHECKS if checked else ()))
    found |= {f"trifold/{path.relative_to(toolkit)}": path for path in _matching(toolkit, patterns)}
    return _digests(found)


def of_files(root: Path, patterns: Iterable[str]) -> Sources:
    """The files of ``root`` that match one of ``patterns``, such as ``trifold/engine/**/*.cpp``, and none after a
    ``!``."""
    return _digests({str(path.relative_to(root)): path for path in _matching(root, patterns)})


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The files that are in only one of the two, or have another digest there."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def recorded(document: Mapping[str, Any]) -> Sources:
    """The sources that a record names; empty if it was written before records did."""
    facts = document.get("environment", document)
    return dict(facts.get("sources") or {})


@functools.lru_cache(maxsize=4096)  # each verification asks for the same files of the toolkit
def digest(name: str, content: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a file's code; of all its bytes if ``name`` is not a code
    file's."""
    pieces: Iterable[str] | None = None
    try:
        if b"\0" in content:
            pieces = None
        elif name.endswith(_CPP):
            pieces = list(_of_cpp(content.decode("utf-8")))
        elif name.endswith(".py"):
            pieces = list(_of_python(content.decode("utf-8")))
    except (SyntaxError, ValueError, tokenize.TokenError):
        pieces = None  # not readable as code: all of it counts
    code = content if pieces is None else "\0".join(pieces).encode()
    return hashlib.sha256(code).hexdigest()[:_DIGITS]


def _matching(root: Path, patterns: Iterable[str]) -> list[Path]:
    chosen = list(patterns)
    left_out = {path for pattern in chosen if pattern[0] == "!" for path in root.glob(pattern[1:])}
    found = {path for pattern in chosen if pattern[0] != "!" for path in root.glob(pattern) if path.is_file()}
    return sorted(p for p in found - left_out if "__pycache__" not in p.parts and p.suffix != ".so")


def _digests(files: Mapping[str, Path]) -> Sources:
    return {name: digest(name, files[name].read_bytes()) for name in sorted(files)}


def _of_cpp(text: str) -> Iterator[str]:
    """Its tokens; for a preprocessor directive, in which blanks and line ends are significant, those too."""
    directive, at_start = False, True
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match["line"]:
            if directive:
                yield "\n"
            directive, at_start = False, True
        elif match["comment"] or match["blank"]:
            if directive:
                yield " "
        else:
            directive = directive or (at_start and token == "#")
            at_start = False
            yield token


def _of_python(text: str) -> Iterator[str]:
    """Its tokens without comments and docstrings, the same under each version of Python."""
    first = getattr(tokenize, "FSTRING_START", None)  # since 3.12 an f-string is many tokens; here it is one
    last = getattr(tokenize, "FSTRING_END", None)
    lines = text.splitlines(keepends=True)
    line: list[tuple[bool, str]] = []
    inside: list[tuple[int, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == first:
            inside.append(token.start)
        elif token.type == last:
            start = inside.pop()
            if not inside:
                line.append((False, _slice(lines, start, token.end)))
        elif inside or token.type in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER):
            continue
        elif token.type in (tokenize.INDENT, tokenize.DEDENT):
            yield "indent" if token.type == tokenize.INDENT else "dedent"
        elif token.type == tokenize.NEWLINE:
            if not all(is_string for is_string, _ in line):
                yield from (piece for _, piece in line)
                yield "\n"
            line = []
        else:
            is_string = token.type == tokenize.STRING and token.string.lstrip("rRuU")[0] in "\"'"
            line.append((is_string, token.string))


def _slice(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    rows = lines[start[0] - 1 : end[0]]
    rows[-1] = rows[-1][: end[1]]
    rows[0] = rows[0][start[1] :]
    return "".join(rows)
