"""Findings that a user accepts: by a comment at the line, or by an entry of a suppressions file.

    out[0] = 1  # trifold: allow race, all write the same value
    out[0] = 1;  // trifold: allow race, all write the same value

A comment accepts findings of its kind that have an access at its line; a comment on a line by itself applies to the
next line. ``race of writes`` accepts no race with a read, so that a missing barrier is still found. A suppressions file
is TOML; ``kind`` and ``reason`` are required, and in the other fields ``*`` and ``?`` are wildcards:

    [[suppression]]
    kind = "race"
    kernel = "histogram*"
    file = "thelib/*.py"
    array = "flags"
    reason = "any of the writes will do"

The engine matches them with its findings (engine/core/tolerance.h), and :func:`accepted` with those of
compute-sanitizer.
"""

from __future__ import annotations

import io
import linecache
import re
import tokenize
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from trifold.errors import TrifoldError
from trifold.findings import Finding, FindingKind

_NEVER = "deadlock"  # a launch cannot continue after it
# The acceptable findings: those of a kind, or races between writes only.
KINDS: tuple[str, ...] = (*(kind for kind in get_args(FindingKind) if kind != _NEVER), "race of writes")
SETTING = "suppressions"  # in [tool.trifold] of pyproject.toml

_FIELDS = ("kind", "kernel", "file", "array", "reason")
_MARK = "trifold: allow"
_ALLOW = re.compile(r"\s*trifold: allow\b(?P<what>.*)", re.DOTALL)
# C++ strings, in which a comment does not count, and comments.
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


class AcceptanceError(TrifoldError):
    """A comment that allows a finding, or a suppressions file, is invalid."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Accepted findings of one kind.

    Attributes:
        place: where the user accepts them: "kernels.py:12", or "suppressions.toml, entry 2"; paths below the current
            folder are relative.
        kernel, array: patterns; "" is any.
        file: for a comment its own path, else a pattern.
        line: the line of the access that a comment applies to; 0: any.
    """

    kind: str
    reason: str
    place: str
    kernel: str = ""
    file: str = ""
    array: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.kind} at {self.place} ({self.reason})"

    def accepts(self, finding: Finding) -> bool:
        """Whether it applies to the finding; as in the engine, a kernel's pattern may leave out template arguments, and
        a relative path matches the end of a path."""
        if self.kind == "race of writes":
            if finding.kind != "race" or any(access.operation != "write" for access in finding.accesses):
                return False
        elif finding.kind != self.kind:
            return False
        names = (finding.kernel, finding.kernel.partition("<")[0])
        if not any(_matches(self.kernel, name) for name in names) or not _matches(self.array, finding.array):
            return False
        places = [(access.file, access.line) for access in finding.accesses]
        places += [(caller.file, caller.line) for access in finding.accesses for caller in access.callers]
        if self.line:
            return any(line == self.line and Path(file) == Path(self.file) for file, line in places)
        return not self.file or any(_matches(self.file, f) or _matches(f"*/{self.file}", f) for f, _ in places)


def _matches(pattern: str, text: str) -> bool:
    """Whether the pattern is "" or that of the text: ``*`` is any characters, ``?`` one."""
    wild = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return not pattern or re.fullmatch(wild, text, re.DOTALL) is not None


def accepted(findings: Iterable[Finding], acceptances: Collection[Acceptance]) -> list[Finding]:
    """The findings, those that one of the acceptances applies to with its reason and place."""

    def judged(finding: Finding) -> Finding:
        by = next((one for one in acceptances if one.accepts(finding)), None)
        return finding if by is None else replace(finding, accepted=by.reason, accepted_at=by.place)

    return [judged(finding) for finding in findings]


def for_engine(acceptances: Iterable[Acceptance]) -> str:
    """The text for engine::Policy::accept()."""
    fields = ((a.kind, a.kernel, a.file, a.array, str(a.line), a.place, a.reason) for a in acceptances)
    return "\n".join("\t".join(" ".join(field.split()) for field in each) for each in fields)


def read_comments(path: Path | str, text: str | None = None) -> tuple[Acceptance, ...]:
    """The findings that comments of a Python or C++ file accept.

    Args:
        path: of the file; one that ends with .py, or is not a file (a notebook's cell), is Python.
        text: its content; default: read from the file.

    Raises:
        AcceptanceError: a comment names no kind of finding, or gives no reason.
    """
    name = str(path)
    if text is None:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    if _MARK not in text:
        return ()
    python = Path(name).suffix in ("", ".py") or name.startswith("<")
    lines = text.splitlines()
    comments = dict(_python_comments(text) if python else _c_comments(text))
    found = []
    for line, comment in comments.items():
        match = _ALLOW.match(comment)
        if match is None:
            continue
        target = line
        while target <= len(lines) and _is_comment_alone(lines[target - 1], python):
            target += 1
        place = f"{_shown(name)}:{line}"
        kind, reason = _parts(match["what"], place)
        found.append(Acceptance(kind, reason, place, file=name, line=target))
    return tuple(found)


def _python_comments(text: str) -> Iterator[tuple[int, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string.lstrip("#")
    except (tokenize.TokenError, SyntaxError):
        return  # Python itself reports the error


def _c_comments(text: str) -> Iterator[tuple[int, str]]:
    for token in _TOKEN.finditer(text):
        if not token[0].startswith('"'):
            yield text.count("\n", 0, token.start()) + 1, token[0].removesuffix("*/")[2:]


def _is_comment_alone(line: str, python: bool) -> bool:
    text = line.strip()
    if python:
        return text.startswith("#")
    return text.startswith("//") or (text.startswith("/*") and text.endswith("*/"))


def _parts(what: str, where: str) -> tuple[str, str]:
    kind, _, reason = (" ".join(part.split()) for part in what.partition(","))
    _require_kind(kind, where)
    if not reason:
        raise AcceptanceError(
            f"{where} allows a finding without a reason", f"write it after the kind: {_MARK} {kind}, why it is right"
        )
    return kind, reason


def _require_kind(kind: str, where: str) -> None:
    if kind in KINDS:
        return
    problem = "a deadlock cannot be accepted" if kind == _NEVER else f"there is no finding of the kind '{kind}'"
    raise AcceptanceError(f"{where}: {problem}", f"kinds: {', '.join(KINDS)}")


def read_suppressions(path: Path) -> tuple[Acceptance, ...]:
    """The entries of a suppressions file.

    Raises:
        AcceptanceError: it cannot be read, or an entry is wrong; the message names it.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AcceptanceError(f"the suppressions {path} cannot be read: {error}", "name a TOML file") from None
    entries = content.get("suppression", [])
    others = sorted(set(content) - {"suppression"})
    if others or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise AcceptanceError(
            f"{path} is not a list of suppressions{f': it has {others[0]}' if others else ''}",
            "begin each entry with [[suppression]]",
        )
    return tuple(_entry(entry, f"{_shown(path)}, entry {number}") for number, entry in enumerate(entries, start=1))


def _shown(path: Path | str) -> str:
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)


def _entry(entry: dict[str, Any], place: str) -> Acceptance:
    unknown = sorted(set(entry) - set(_FIELDS))
    wrong = sorted(name for name, value in entry.items() if not isinstance(value, str) or not value)
    missing = [name for name in ("kind", "reason") if name not in entry]
    for names, problem in ((unknown, "has no field"), (wrong, "needs text in"), (missing, "lacks")):
        if names:
            raise AcceptanceError(f"{place} {problem} {', '.join(names)}", f"its fields are {', '.join(_FIELDS)}")
    _require_kind(entry["kind"], place)
    return Acceptance(place=place, **entry)


def configured_suppressions(start: Path) -> Path | None:
    """The suppressions file of the project of ``start``: ``suppressions`` in the nearest ``[tool.trifold]``.

    Raises:
        AcceptanceError: the setting is wrong.
    """
    for folder in (start, *start.parents):
        try:
            table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("tool", {})
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            continue  # another tool's, or none
        if "trifold" in table:
            return _suppressions_in(table["trifold"], folder)
    return None


def _suppressions_in(table: dict[str, Any], folder: Path) -> Path | None:
    name = table.get(SETTING)
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        raise AcceptanceError(
            f"{folder / 'pyproject.toml'}: {SETTING} in [tool.trifold] must be a file's name", "write a string"
        )
    return folder / name


@dataclass
class Accepted:
    """The acceptances of one process, which grow with the files that run.

    Args:
        on_change: called with the engine's text when they change.

    Attributes:
        used: those that apply to something that ran.
    """

    on_change: Callable[[str], object]
    used: dict[str, Acceptance] = field(default_factory=dict)
    _by_file: dict[str, tuple[Acceptance, ...]] = field(default_factory=dict)
    _suppressions: tuple[Acceptance, ...] = ()

    def suppress(self, path: Path | None) -> None:
        """Use the entries of this file instead of the previous one's.

        Raises:
            AcceptanceError: the file is invalid.
        """
        self._suppressions = () if path is None else read_suppressions(path)
        self._notify()

    def all(self) -> tuple[Acceptance, ...]:
        """Comments of the files that were read, and the entries of the suppressions file."""
        return (*(each for of_file in self._by_file.values() for each in of_file), *self._suppressions)

    def take_function(self, file: str, first: int, last: int) -> list[Acceptance]:
        """A Python function with these lines is about to run; returns new acceptances that apply to it.

        Raises:
            AcceptanceError: a comment of the file is invalid.
        """
        return self._use(a for a in self._read(file, "".join(linecache.getlines(file))) if first <= a.line <= last)

    def take_files(self, files: Iterable[Path]) -> list[Acceptance]:
        """Kernels of these C++ files are about to run; returns new acceptances that apply to them.

        Raises:
            AcceptanceError: a comment is invalid.
        """
        return self._use([a for file in files for a in self._read(str(file), None)])

    def _read(self, file: str, text: str | None) -> tuple[Acceptance, ...]:
        if file not in self._by_file:
            self._by_file[file] = read_comments(file, text)
            if self._by_file[file]:
                self._notify()
        return self._by_file[file]

    def _use(self, comments: Iterable[Acceptance]) -> list[Acceptance]:
        new = [each for each in (*self._suppressions, *comments) if each.place not in self.used]
        self.used.update({each.place: each for each in new})
        return new

    def _notify(self) -> None:
        comments = (each for comments in self._by_file.values() for each in comments)
        self.on_change(for_engine((*comments, *self._suppressions)))
