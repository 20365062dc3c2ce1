"""The results as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trifold.bench.interval import Estimate
from trifold.bench.rows import PEERS, ROOFLINE, Figure, Row

_METHODS = {
    "graph": "CUDA graph replay",
    "events": "CUDA events around each call",
    "cpu": "wall time on the CPU",
    "host: no grad": "host time of a call, no grad",
    "host: forward": "host time of a call that records a gradient",
    "host: forward + backward": "host time of forward + backward",
}
_HEAD = ("case", "competitor", "time µs", "95%", "GB/s", "roofline")
_LONG = 1.0  # seconds until the first call is done, above which a table reports it


def table(rows: Sequence[Row]) -> str:
    """One table: the rows of one op, benchmark, dtype and method. The number after ± is half of the 95% interval,
    relative to the number before it."""
    op, benchmark, dtype, method = rows[0].group
    title = f"{op} · {benchmark} · {dtype} · {_METHODS.get(method, method)}"
    peers = [name for name in PEERS if any(name in row.ratios for row in rows)]
    cells: list[tuple[str, ...]] = [(*_HEAD, *(f"× {name}" for name in peers), "")]
    previous = ""
    for row in rows:
        cells.append(("" if row.case == previous else row.case, *_cells(row, peers)))
        previous = row.case
    return f"{title}\n{align(cells)}"


def _cells(row: Row, peers: Sequence[str]) -> tuple[str, ...]:
    if row.seconds is None:
        return (row.competitor, *["-"] * (len(_HEAD) - 2 + len(peers)), f"{row.outcome}: {row.reason}")
    return (
        row.competitor,
        f"{row.seconds * 1e6:,.2f}",
        _number(row.spread, "±{:.1%}"),
        _number(row.gb_per_s, "{:,.0f}" if (row.gb_per_s or 0) >= 10 else "{:,.2f}"),
        _estimate(row.ratios.get(ROOFLINE), "{:.1%}"),
        *(_estimate(row.ratios.get(name), "{:.2f}") for name in peers),
        _note(row),
    )


def _note(row: Row) -> str:
    slow = "slow: one call" if row.outcome == "slow" else ""
    first = f"first call {row.prepared:.1f} s" if row.prepared is not None and row.prepared >= _LONG else ""
    return "; ".join(filter(None, (slow, row.reason, first)))


def _estimate(estimate: Estimate | None, form: str) -> str:
    if estimate is None:
        return "-"
    return form.format(estimate.value) + ("" if estimate.spread is None else f" ±{estimate.spread:.1%}")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def align(cells: Iterable[Sequence[str]]) -> str:
    """Columns of equal width: the first two and the last left-aligned, numbers right-aligned."""
    lines = [tuple(line) for line in cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    last = len(widths) - 1

    def column(i: int, value: str) -> str:
        return value.ljust(widths[i]) if i < 2 or i == last else value.rjust(widths[i])

    return "\n".join("  " + "  ".join(column(i, value) for i, value in enumerate(line)).rstrip() for line in lines)


def figure_lines(figures: Sequence[Figure]) -> str:
    """PASS, FAIL or - (too little was measured) for each target."""
    cells = [("", "op", "measured", "target", "")]
    for figure in figures:
        mark = "-" if figure.passed is None else "PASS" if figure.passed else "FAIL"
        measured = "-" if figure.measured is None else f"{figure.measured:.3f}"
        name = f"{figure.op} · {figure.benchmark} · {figure.method}"
        cells.append((mark, name, measured, f"≥ {figure.at_least:.3f}", f"{figure.target} ({figure.where})"))
    return f"Targets\n{align(cells)}"


def preparing(rows: Iterable[Row]) -> str:
    """The total time of each competitor's first calls: the cost of compiling in a run."""
    seconds: dict[str, float] = {}
    for row in rows:
        if row.prepared is not None:
            seconds[row.competitor] = seconds.get(row.competitor, 0.0) + row.prepared
    parts = [f"{name} {total:.1f} s" for name, total in sorted(seconds.items(), key=lambda item: -item[1])]
    return f"First calls, which compile, took in all: {', '.join(parts)}"
