"""The fenced blocks of a page, and what each of them is to the one who runs the page.

An info string is a language and marks: ```` ```sh slow="tests/graduate builds a wheel" ````. A page shows the language
alone.

- ``python`` runs in the page's namespace, ``sh`` in its folder. ``exit=N`` is the status that a command must end with.
- ``text`` follows one of the two, and shows what it prints: each line must occur, up to white space; ``…`` matches
  anything. Lines after a debugger's prompt are what is typed.
- ``file=PATH`` in any language: the block is that file's content.
- ``diff`` replaces lines of a file; with ``wrong=NAME`` it shows a wrong op of ``tests/wrong`` and changes nothing.
- ``interactive``, ``slow=REASON``: not run. ``gpu``, ``needs=TOOL``: run where there is a GPU, or the tool.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

RUN = ("python", "sh")
SHOWN = ("mermaid",)
MARKS = frozenset({"exit", "file", "wrong", "gpu", "interactive", "slow", "needs"})
_PROMPT = re.compile(r"\((?:Pdb|gdb)\) ?(.*)")
_FENCE = re.compile(r"(`{3,})(.*)")


class PageError(AssertionError):
    """A block of a page that is not right; says where."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: its path, as it is named to people.
        line: of its first fence, from 1.
        marks: those of the info string; one without a value has "".
        shows: the ``text`` block after it: what it prints.
    """

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    shows: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def skipped(self) -> str:
        """Why it is not run anywhere; "" where it is."""
        if "interactive" in self.marks:
            return "needs a person"
        return self.marks.get("slow", "")

    @property
    def writes(self) -> bool:
        """Whether it makes or changes a file."""
        return "file" in self.marks or (self.language == "diff" and "wrong" not in self.marks)

    @property
    def typed(self) -> str:
        """The lines typed at the prompts in the block."""
        return "".join(f"{match[1]}\n" for line in self.shows.splitlines() if (match := _PROMPT.match(line)))

    @property
    def printed(self) -> list[str]:
        """The lines that it must print."""
        return [line for line in self.shows.splitlines() if line.strip() and not _PROMPT.match(line)]


@dataclass(frozen=True)
class Hunk:
    """Lines of a file, and those that replace them."""

    path: str
    old: str
    new: str

    def apply(self, text: str, where: object) -> str:
        """The file's new text; raises ``PageError`` unless the old lines occur once."""
        if (found := text.count(self.old)) != 1:
            raise PageError(str(where), f"these lines occur {found} times in {self.path}, not once:\n{self.old}")
        return text.replace(self.old, self.new)


def blocks(page: Path, name: str) -> list[Block]:
    """The fenced blocks of a page, in order; raises ``PageError`` for one that has no meaning."""
    found: list[Block] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        if (opening := _FENCE.match(line)) is None:
            continue
        body: list[str] = []
        for _, inner in lines:
            if inner.rstrip() == opening[1]:
                break
            body.append(inner)
        else:
            raise PageError(f"{name}:{number}", "this block has no end")
        _add(found, _block(name, number, opening[2], "".join(f"{each}\n" for each in body)))
    return found


def _block(page: str, line: int, info: str, text: str) -> Block:
    language, *words = shlex.split(info) or [""]
    marks = {name: value for name, _, value in (word.partition("=") for word in words)}
    block = Block(page, line, language, text, marks)
    if unknown := set(marks) - MARKS:
        raise PageError(str(block), f"unknown marks: {', '.join(sorted(unknown))}")
    if marks.get("slow") == "":
        raise PageError(str(block), 'slow has no reason: slow="…"')
    if language not in (*RUN, *SHOWN, "text", "diff") and "file" not in marks:
        raise PageError(str(block), f"nothing runs a block of {language or 'no language'}")
    return block


def _add(found: list[Block], block: Block) -> None:
    if block.language != "text" or "file" in block.marks:
        found.append(block)
        return
    if not found or found[-1].language not in RUN or found[-1].shows or "file" in found[-1].marks:
        raise PageError(str(block), "this text shows the output of no command")
    last = found.pop()
    found.append(Block(last.page, last.line, last.language, last.text, last.marks, block.text))


def hunks(block: Block) -> list[Hunk]:
    """The replacements of a ``diff`` block: ``--- PATH``, lines of `` ``, ``-`` and ``+``; ``@@`` separates places."""
    found: list[Hunk] = []
    path, old, new = "", "", ""
    for line in [*block.text.splitlines(), "@@"]:
        kind, rest = line[:1] or " ", line[1:] + "\n"
        if line.startswith(("--- ", "@@")):
            if old or new:
                found.append(Hunk(path, old, new))
            path, old, new = line[4:] if line.startswith("--- ") else path, "", ""
        elif not path or kind not in " -+":
            raise PageError(str(block), f"no part of a diff: {line}")
        else:
            old += rest if kind in " -" else ""
            new += rest if kind in " +" else ""
    if not found:
        raise PageError(str(block), "this diff replaces nothing")
    return found


def missing_lines(expected: list[str], output: str) -> list[str]:
    """The expected lines that do not occur in the output, up to white space and ``…``."""
    seen = " ".join(output.split())
    return [line for line in expected if not re.search(_pattern(line), seen)]


def _pattern(line: str) -> str:
    parts = (" ".join(part.split()) for part in line.split("…"))
    return r".*?".join(re.escape(part) for part in parts)
