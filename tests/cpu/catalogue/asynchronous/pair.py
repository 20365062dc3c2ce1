"""A pair of kernels, one of which is wrong by one line; and the source with the kernels of pairs."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cpu.catalogue.asynchronous.kernels import INSTRUCTIONS, KERNELS, TEXTS, Kernel
from trifold.findings import Finding


@functools.cache
def _lines(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


@dataclass(frozen=True)
class Found:
    """A finding.

    Attributes:
        lines: patterns; each must match the line of one of its accesses.
        says: a pattern that its message must match.
    """

    kind: str
    lines: tuple[str, ...]
    says: str = ""
    severity: str = "error"

    def is_in(self, finding: Finding) -> bool:
        """Whether ``finding`` is this one."""
        lines = [_lines(access.file)[access.line - 1] for access in finding.accesses if access.file]
        return (
            (finding.kind, finding.severity) == (self.kind, self.severity)
            and all(any(re.search(pattern, line) for line in lines) for pattern in self.lines)
            and re.search(self.says, finding.message, re.DOTALL) is not None
        )


@dataclass(frozen=True)
class Pair:
    """A right kernel, and the line that differs in the wrong twin.

    Attributes:
        number: of the class of faults (classes.py).
        line: a part of the right line, the first one in the kernel that contains it.
        other: the replacement of that part in the wrong twin.
        found: the possible findings in the wrong twin, depending on the schedule.
        hidden: why some schedules do not show it; empty: all do.
        hangs: a GPU may never end the wrong twin, although ``found`` has no deadlock.
    """

    number: int
    name: str
    kernel: str
    line: str
    other: str
    found: tuple[Found, ...]
    hidden: str = ""
    hangs: bool = False

    def __str__(self) -> str:
        return f"{self.number} {self.name}"

    @property
    def right(self) -> Kernel:
        return KERNELS[self.kernel]

    @property
    def lines(self) -> tuple[str, str]:
        """The right line and the wrong one, with single blanks."""
        right, wrong = (text.splitlines() for text in (TEXTS[self.kernel], self.text))
        ((old, new),) = [(old, new) for old, new in zip(right, wrong, strict=True) if old != new]
        return " ".join(old.split()), " ".join(new.split())

    @property
    def text(self) -> str:
        """The text of the wrong twin."""
        line = " +".join(map(re.escape, self.line.split()))  # comments are aligned
        wrong, count = re.subn(line, lambda _: self.other, TEXTS[self.kernel], count=1)
        assert count == 1, f"{self}: {self.kernel} has no {self.line!r}"
        return wrong

    @property
    def space(self) -> str:
        """The namespace of the wrong twin."""
        return "wrong_" + re.sub(r"\W+", "_", f"{self.number} {self.name}")

    @property
    def qualified(self) -> str:
        return f"{self.space}::{self.kernel}"


def qualified(kernel: Kernel) -> str:
    """The name of a right kernel, with its namespace."""
    return f"right::{kernel.name}"


def write_kernels(folder: Path, right: Iterable[Kernel], wrong: Iterable[Pair]) -> None:
    """Write ``entries.cuh``, with these kernels and their includes instead of the catalogue's."""
    right, wrong = list(right), list(wrong)
    names = ",\n      ".join([*map(qualified, right), *(pair.qualified for pair in wrong)])
    text = [
        "#pragma once\n",
        f'#include "{INSTRUCTIONS.name}"\n',
        *(f"namespace right {{\n{TEXTS[kernel.name]}}}\n" for kernel in right),
        *(f"// {pair}\nnamespace {pair.space} {{\n{pair.text}}}\n" for pair in wrong),
        f"namespace catalogue {{\ninline void add_all(Entries& made) {{\n  add<{names}>(made);\n}}\n}}\n",
    ]
    (folder / "entries.cuh").write_text("\n".join(text), encoding="utf-8")
    shutil.copyfile(INSTRUCTIONS, folder / INSTRUCTIONS.name)
