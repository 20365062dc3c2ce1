"""The results of a run as data: one row per competitor, case and method; and its JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trifold.bench.interval import Estimate, ratio
from trifold.errors import TrifoldError

Outcome = Literal["measured", "slow", "failed", "not run"]

ROOFLINE = "roofline"
EAGER = "eager"
COMPILED = "torch.compile"
LIGER = "liger"
QUACK = "quack"
CUB = "cub"
PROTOTYPE = "prototype"
PORT = "port"
PEERS = (EAGER, COMPILED, LIGER, QUACK, CUB)  # what a user would otherwise call
COMPETITORS = (*PEERS, PROTOTYPE, PORT)
RIVALS = {"eager": EAGER, "compile": COMPILED, "liger": LIGER, "quack": QUACK, "cub": CUB, "prototype": PROTOTYPE}
DEFAULT_RIVALS = ("eager", "compile", "prototype")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One competitor in one case.

    Attributes:
        op, benchmark, case, dtype: identify it; ``dtype`` as "float32".
        sizes: those in the case's label.
        method: ``graph``, ``events``, ``cpu``, or ``host: ...``.
        competitor: one of :data:`COMPETITORS`, or ``roofline``.
        bytes: the number that must move.
        outcome: ``slow`` is measured too, by a single call.
        reason: why it failed or did not run; for measured rows a remark: for the roofline the fastest way.
        seconds, low, high: the median of ``samples`` readings, of one call, and the ends of its 95% interval.
        prepared: seconds until its first call was done, which compiles.
        ratios: the time of ``roofline`` and of each peer over this one's.
    """

    op: str
    benchmark: str
    case: str
    dtype: str
    method: str
    competitor: str
    bytes: int
    outcome: Outcome
    sizes: tuple[int, ...] = ()
    reason: str = ""
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    prepared: float | None = None
    ratios: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def gb_per_s(self) -> float | None:
        """10⁹ bytes a second; none for a host time, which moves nothing."""
        if not self.seconds or not self.bytes or self.method.startswith("host"):
            return None
        return self.bytes / self.seconds * 1e-9

    @property
    def spread(self) -> float | None:
        """Half the width of the 95% interval, relative to the median."""
        return Estimate(self.seconds, self.low, self.high).spread if self.seconds else None

    @property
    def fastest_peer(self) -> tuple[str, Estimate] | None:
        """The peer with the shortest time in this row's case, and its time over this one's."""
        others = [(name, self.ratios[name]) for name in PEERS if name in self.ratios and name != self.competitor]
        return min(others, key=lambda pair: pair[1].value, default=None)

    @property
    def group(self) -> tuple[str, str, str, str]:
        """The rows of one table have this in common."""
        return self.op, self.benchmark, self.dtype, self.method

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Identifies rows that are compared: those of one case and method."""
        return (*self.group, self.case)


def with_ratios(rows: Sequence[Row], readings: Mapping[str, Sequence[float]] | None = None) -> list[Row]:
    """The rows of one case and method, each compared with the roofline and the peers among them.

    Args:
        rows: of one case and method.
        readings: seconds of each competitor, in the rounds in which they were read; without them a ratio is that of
            the medians and has no interval.
    """
    known = {row.competitor: (readings or {}).get(row.competitor) or [row.seconds] for row in rows if row.seconds}

    def ratios(row: Row) -> dict[str, Estimate]:
        own = known.get(row.competitor)
        others = [name for name in (ROOFLINE, *PEERS) if name in known and name != row.competitor]
        return {name: ratio(known[name], own) for name in others} if own else {}

    return [dataclasses.replace(row, ratios=ratios(row)) for row in rows]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A target and its measured value; ``passed`` is None if too little was measured."""

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
    """All results of a run of ``trifold bench``."""

    environment: dict[str, Any]
    rows: tuple[Row, ...]
    figures: tuple[Figure, ...]

    def to_json(self) -> str:
        """One line per row and figure, so that two files can be compared."""
        rows = [
            {**vars(row), "ratios": {name: vars(one) for name, one in row.ratios.items()}, "gb_per_s": row.gb_per_s}
            for row in self.rows
        ]
        head = json.dumps(self.environment, indent=1, ensure_ascii=False)
        return f'{{"environment": {head},\n"figures": {_lines(map(vars, self.figures))},\n"rows": {_lines(rows)}}}\n'

    @classmethod
    def read(cls, path: Path) -> Results:
        """Raises :class:`TrifoldError` if ``path`` does not hold what :meth:`to_json` writes."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                environment=document["environment"],
                rows=tuple(_row(row) for row in document["rows"]),
                figures=tuple(Figure(**figure) for figure in document["figures"]),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TrifoldError(f"{path} holds no results of trifold bench: {error}", "write it with --json") from None


def _lines(objects: Iterable[Mapping[str, Any]]) -> str:
    return "[" + ",".join("\n" + json.dumps(one, ensure_ascii=False) for one in objects) + "]"


_FIELDS = {one.name for one in dataclasses.fields(Row)}
_BEFORE_INTERVALS = {ROOFLINE: "roofline", EAGER: "over_eager", COMPILED: "over_compiled"}


def _row(document: dict[str, Any]) -> Row:
    known = {name: value for name, value in document.items() if name in _FIELDS}
    if "ratios" in document:
        ratios = {name: Estimate(**value) for name, value in document["ratios"].items()}
    else:  # written before there were intervals: `low` and `high` are quartiles
        known |= {"low": None, "high": None}
        found = {name: document.get(former) for name, former in _BEFORE_INTERVALS.items()}
        ratios = {name: Estimate(value) for name, value in found.items() if value and name != document["competitor"]}
    return Row(**(known | {"sizes": tuple(known.get("sizes", ())), "ratios": ratios}))


def groups(rows: Iterable[Row]) -> dict[tuple[str, str, str, str], list[Row]]:
    """The rows by table, in the order in which they first appear."""
    tables: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        tables.setdefault(row.group, []).append(row)
    return tables
