"""Whether an op became slower since a file of results was written, possibly on another machine.

The comparison uses the port's share of the rate of a memory copy of as many bytes in the same run: two machines of one
kind differ in their memory clock, and so does one machine from day to day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trifold.bench.interval import Estimate
from trifold.bench.rows import PORT, ROOFLINE, Row
from trifold.bench.table import align
from trifold.errors import TrifoldError


@dataclass(frozen=True)
class Change:
    """The port in one case: its share of the roofline before and now."""

    row: Row
    before: float
    now: Estimate

    @property
    def slower(self) -> float:
        """The fraction by which it became slower; negative: faster."""
        return 1 - self.now.value / self.before


def changes(now: Iterable[Row], before: Iterable[Row]) -> list[Change]:
    """The cases that both have measured against the roofline, largest slowdown first."""
    known = {row.key: row.ratios[ROOFLINE].value for row in before if _comparable(row)}
    found = [Change(row, known[row.key], row.ratios[ROOFLINE]) for row in now if _comparable(row) and row.key in known]
    return sorted(found, key=lambda change: -change.slower)


def _comparable(row: Row) -> bool:
    return row.competitor == PORT and row.outcome == "measured" and ROOFLINE in row.ratios


def failures(now: Iterable[Row], before: Iterable[Row]) -> list[Row]:
    """The rows of ports that were measured before and fail now."""
    known = {row.key for row in before if _comparable(row)}
    return [row for row in now if row.competitor == PORT and row.outcome == "failed" and row.key in known]


def limit(text: str) -> float:
    """The fraction in ``--limit``: "5%" and "0.05" are the same.

    Raises:
        TrifoldError: it is neither, or not in [0, 1).
    """
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise TrifoldError(f"--limit {text}: it is a part from 0 to below 1", "write it as 5% or 0.05")
    return value


def report(found: Sequence[Change], failed: Sequence[Row], most: float) -> str:
    """A table of cases slower by more than ``most``, or a line that there are none."""
    worse = [change for change in found if change.slower > most]
    lines = [f"Compared with the file: {len(found)} cases, {len(worse)} slower by more than {most:.1%}"]
    if worse:
        head = ("op", "case", "before", "now", "slower", "")
        lines.append(align([head, *(_cells(change) for change in worse)]))
    elif found:
        least = found[0]
        lines.append(f"  the slowest change is {least.slower:+.1%}, in {' · '.join(_names(least.row))}")
    lines += [f"  failed: {' · '.join(_names(row))}: {row.reason}" for row in failed]
    return "\n".join(lines)


def _names(row: Row) -> tuple[str, str]:
    return f"{row.op} · {row.benchmark} · {row.dtype} · {row.method}", row.case


def _cells(change: Change) -> tuple[str, ...]:
    spread = "" if change.now.spread is None else f" ±{change.now.spread:.1%}"
    return (
        *_names(change.row),
        f"{change.before:.1%}",
        f"{change.now.value:.1%}{spread}",
        f"{change.slower:.1%}",
        f"of the {ROOFLINE}",
    )
