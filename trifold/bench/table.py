"""The results as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trifold.bench.rows import Figure, Row

_METHODS = {
    "graph": "CUDA graph replay",
    "events": "CUDA events around each call",
    "cpu": "wall time on the CPU",
    "host: no grad": "host time of a call, no grad",
    "host: forward": "host time of a call that records a gradient",
    "host: forward + backward": "host time of forward + backward",
}
_HEAD = ("case", "competitor", "time µs", "spread", "GB/s", "roofline", "× eager", "× compile", "")


def table(rows: Sequence[Row]) -> str:
    """One table: the rows of one op, benchmark, dtype and method."""
    op, benchmark, dtype, method = rows[0].group
    title = f"{op} · {benchmark} · {dtype} · {_METHODS.get(method, method)}"
    cells: list[tuple[str, ...]] = [_HEAD]
    previous = ""
    for row in rows:
        cells.append(("" if row.case == previous else row.case, *_cells(row)))
        previous = row.case
    return f"{title}\n{align(cells)}"


def _cells(row: Row) -> tuple[str, ...]:
    if row.seconds is None:
        return (row.competitor, "-", "-", "-", "-", "-", "-", f"{row.outcome}: {row.reason}")
    note = "slow: one call" if row.outcome == "slow" else row.reason
    return (
        row.competitor,
        f"{row.seconds * 1e6:,.2f}",
        _number(row.spread, "±{:.1%}"),
        _number(row.gb_per_s, "{:,.0f}" if (row.gb_per_s or 0) >= 10 else "{:,.2f}"),
        _number(row.roofline, "{:.1%}"),
        _number(row.over_eager, "{:.2f}"),
        _number(row.over_compiled, "{:.2f}"),
        note,
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def align(cells: Iterable[Sequence[str]]) -> str:
    """Columns of equal width: the first two and the last to the left, numbers to the right."""
    lines = [tuple(line) for line in cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    last = len(widths) - 1

    def column(i: int, value: str) -> str:
        return value.ljust(widths[i]) if i < 2 or i == last else value.rjust(widths[i])

    return "\n".join("  " + "  ".join(column(i, value) for i, value in enumerate(line)).rstrip() for line in lines)


def figure_lines(figures: Sequence[Figure]) -> str:
    """PASS, FAIL or - (too little was measured to tell) for each target."""
    cells = [("", "op", "measured", "target", "")]
    for figure in figures:
        mark = "-" if figure.passed is None else "PASS" if figure.passed else "FAIL"
        measured = "-" if figure.measured is None else f"{figure.measured:.3f}"
        name = f"{figure.op} · {figure.benchmark} · {figure.method}"
        cells.append((mark, name, measured, f"≥ {figure.at_least:.3f}", f"{figure.target} ({figure.where})"))
    return f"Targets\n{align(cells)}"
