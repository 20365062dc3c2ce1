"""Required figures of a part of trifold, with the measured ones: for the programs in ``benchmarks/``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One requirement: ``measured`` must be at least or at most ``asked``."""

    name: str
    asked: float
    measured: float
    unit: str
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.measured >= self.asked if self.at_least else self.measured <= self.asked


def verdicts(found: Sequence[Figure]) -> str:
    """All figures as a table, with the missed ones."""
    from trifold.bench.table import align

    rows: list[tuple[str, ...]] = [("figure", "", "asked", "measured", "")]
    for figure in found:
        asked = f"{'≥' if figure.at_least else '≤'} {figure.asked:,g} {figure.unit}"
        measured = f"{figure.measured:,.{0 if figure.measured >= 100 else 2}f} {figure.unit}"
        rows.append((figure.name, "", asked, measured, "met" if figure.met else "MISSED"))
    return align(rows)


def write(path: Path, found: Sequence[Figure], **extra: Any) -> None:
    """The figures as JSON, after other data to be kept: the environment, and their inputs."""
    content = extra | {"figures": [{**asdict(figure), "met": figure.met} for figure in found]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
