"""What a run measured, as data: one row a competitor, case and method; and its JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trifold.errors import TrifoldError

Outcome = Literal["measured", "slow", "failed", "not run"]

ROOFLINE = "roofline"
EAGER = "eager"
COMPILED = "torch.compile"
PROTOTYPE = "prototype"
PORT = "port"
COMPETITORS = (EAGER, COMPILED, PROTOTYPE, PORT)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One competitor in one case.

    Attributes:
        op, benchmark, case, dtype: which; ``dtype`` as "float32".
        method: ``graph``, ``events``, ``cpu``, or ``host: ...``.
        competitor: one of :data:`COMPETITORS`, or ``roofline``.
        bytes: that must move.
        outcome: ``slow`` is measured too, by a single call.
        reason: why it failed or did not run; for the roofline, which way was the fastest.
        seconds, low, high: median and quartiles of ``samples`` readings, of one call.
        roofline: the roofline's time over this one's.
        over_eager, over_compiled: that competitor's time over this one's.
    """

    op: str
    benchmark: str
    case: str
    dtype: str
    method: str
    competitor: str
    bytes: int
    outcome: Outcome
    reason: str = ""
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    roofline: float | None = None
    over_eager: float | None = None
    over_compiled: float | None = None

    @property
    def gb_per_s(self) -> float | None:
        """10⁹ bytes a second; none for a host time, which moves nothing."""
        if not self.seconds or not self.bytes or self.method.startswith("host"):
            return None
        return self.bytes / self.seconds * 1e-9

    @property
    def spread(self) -> float | None:
        """Half the distance of the quartiles, relative to the median."""
        if not self.seconds or self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2 / self.seconds

    @property
    def group(self) -> tuple[str, str, str, str]:
        """What shares a table."""
        return self.op, self.benchmark, self.dtype, self.method


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """The rows of one case and method, each compared with the roofline, eager and torch.compile among them."""
    seconds = {row.competitor: row.seconds for row in rows if row.seconds}

    def ratio(name: str, row: Row) -> float | None:
        return seconds[name] / row.seconds if name in seconds and row.seconds else None

    return [
        dataclasses.replace(
            row,
            roofline=None if row.competitor == ROOFLINE else ratio(ROOFLINE, row),
            over_eager=ratio(EAGER, row),
            over_compiled=ratio(COMPILED, row),
        )
        for row in rows
    ]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A target and what was measured of it; ``passed`` is none where too little was measured to tell."""

    op: str
    benchmark: str
    method: str
    target: str
    at_least: float
    measured: float | None
    where: str
    passed: bool | None


@dataclass(frozen=True, kw_only=True)
class Results:
    """All that a run of ``trifold bench`` says."""

    environment: dict[str, Any]
    rows: tuple[Row, ...]
    figures: tuple[Figure, ...]

    def to_json(self) -> str:
        rows = [{**dataclasses.asdict(row), "gb_per_s": row.gb_per_s} for row in self.rows]
        figures = [dataclasses.asdict(figure) for figure in self.figures]
        document = {"environment": self.environment, "figures": figures, "rows": rows}
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> Results:
        """Raises :class:`TrifoldError` if ``path`` does not hold what :meth:`to_json` writes."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            fields = {field.name for field in dataclasses.fields(Row)}
            return cls(
                environment=document["environment"],
                rows=tuple(Row(**{k: v for k, v in row.items() if k in fields}) for row in document["rows"]),
                figures=tuple(Figure(**figure) for figure in document["figures"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TrifoldError(f"{path} holds no results of trifold bench: {error}", "write it with --json") from None


def groups(rows: Iterable[Row]) -> dict[tuple[str, str, str, str], list[Row]]:
    """The rows by table, in the order in which they first appear."""
    tables: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        tables.setdefault(row.group, []).append(row)
    return tables
