"""Writes the figures of docs/performance.md and benchmarks/results/figures.md, and the plots, from benchmarks/results/.

    python benchmarks/figures.py            rewrite the figures of both documents, and the plots
    python benchmarks/figures.py --check    exit with 1 if a document does not say what the JSON files say

The JSON files are written by ``trifold bench --json``. docs/performance.md has a line for each op, pass and dtype,
figures.md one for each case and each target, and the profiles of benchmarks/profile_rows.py. In both, the figures are
between two comments.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trifold.bench.interval import Estimate
from trifold.bench.plot import by_shape, path_over_shapes, plot
from trifold.bench.rows import COMPILED, EAGER, PEERS, PORT, ROOFLINE, Results, Row, groups
from trifold.machine.environment import describe

if TYPE_CHECKING:
    from benchmarks.records import State

ROOT = Path(__file__).resolve().parents[1]
RESULTS = "benchmarks/results"
DOCUMENT = "docs/performance.md"
TABLES = f"{RESULTS}/figures.md"
GRAPH = "graph"  # the method that times kernels without the host
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
PLOT = "figures.png"
PROFILES = "profile/h200-rows.json"


def results_in(folder: Path) -> list[tuple[Path, Results]]:
    """Return each JSON file of ``folder``, by name."""
    return [(path, Results.read(path)) for path in sorted(folder.glob("*.json"))]


def summary(results: Sequence[tuple[Path, Results]], states: dict[str, State]) -> str:
    """Return the figures of ``DOCUMENT``: a line for each op, pass and dtype; empty if there are no results.

    ``states``: of the records, by name.
    """
    parts = []
    for path, one in results:
        measured = [table for table in groups(one.rows).values() if table[0].method == GRAPH]
        if lines := [line for table in measured if (line := _range(table))]:
            parts += [_source(path, one), _table(_RANGES, lines)]
    return _between(parts, states)


def block(results: Sequence[tuple[Path, Results]], states: dict[str, State], profiles: Path) -> str:
    """Return the figures of ``TABLES``: each case, each target, and the profiles in a file, if there is one. Other
    arguments and the result as of :func:`summary`."""
    parts = []
    drawn = False
    for path, one in results:
        parts.append(_source(path, one))
        tables = groups(one.rows).values()
        over_sizes = [table for table in tables if not by_shape(table)]
        if lines := [line for table in over_sizes for line in _speeds(table)]:
            parts.append(_table(_HEAD, lines))
        over_shapes = [table for table in tables if by_shape(table)]
        if over_shapes and not drawn:
            parts.append(f"![rate over shapes]({path_over_shapes(Path(PLOT)).as_posix()})")
            drawn = True
        parts += [_shapes(table) for table in over_shapes]
        if one.figures:
            parts.append(_table(("target", "measured", "verdict"), _verdicts(one)))
    if profiles.is_file():
        parts += _profiles(json.loads(profiles.read_text(encoding="utf-8")))
    return _between(parts, states)


def _profiles(document: Mapping[str, Any]) -> tuple[str, str]:
    """The source and the table of a file that benchmarks/profile_rows.py has written."""
    lines = []
    for one in document["kernels"]:
        waits = [f"{reason.replace('_', ' ')} {cycles:.1f}" for reason, cycles in one["stalls"].items() if cycles >= 1]
        shares = [f"{one[name]:.0f}%" for name in ("memory", "issued", "warps")]
        lines.append((one["what"], f"{one['microseconds']:.1f}", *shares, str(one["registers"]), ", ".join(waits)))
    head = ("pass, shape, dtype", "µs", "memory", "issue slots", "warps", "registers", "waits")
    return f"{describe(document['environment'])} (`{RESULTS}/{PROFILES}`)", _table(head, lines)


def _source(path: Path, results: Results) -> str:
    return f"{describe(results.environment)} (`{RESULTS}/{path.name}`)"


def _between(parts: Sequence[str], states: dict[str, State]) -> str:
    """Return the text between the two comments."""
    from benchmarks.records import marked

    return marked("\n" + "\n\n".join(parts) + "\n", states) if parts else ""


_RANGES = ("op", "cases", "of the roofline", "at the largest", "× eager", "× torch.compile", "× the fastest peer")


def _range(table: Sequence[Row]) -> tuple[str, ...] | None:
    """The least and largest ratio of a table's cases; for the roofline also that of the one that moves most bytes."""
    ours = [row for row in table if row.competitor == PORT and row.seconds]
    if not ours:
        return None
    of_roofline = [row.ratios[ROOFLINE].value for row in ours if ROOFLINE in row.ratios]
    largest = max(ours, key=lambda row: row.bytes).ratios.get(ROOFLINE)
    over = [[row.ratios[peer].value for row in ours if peer in row.ratios] for peer in (EAGER, COMPILED)]
    fastest = [row.fastest_peer[1].value for row in ours if row.fastest_peer]
    return (
        ", ".join(table[0].group[:3]),
        str(len(ours)),
        _from_to(of_roofline, ".0%"),
        "" if largest is None else f"{largest.value:.0%}",
        *(_from_to(values, ".2f") for values in (*over, fastest)),
    )


def _from_to(values: Sequence[float], form: str) -> str:
    if not values:
        return ""
    least, most = (format(value, form) for value in (min(values), max(values)))
    return least if least == most else f"{least} – {most}"


_HEAD = ("op", "timed by", "case", "port", "GB/s", "of the roofline", "× eager", "× torch.compile")


def _speeds(table: Sequence[Row]) -> list[tuple[str, ...]]:
    """The largest case of a table, and the geometric mean over all if there are several."""
    ours = [row for row in table if row.competitor == PORT and row.seconds]
    if not ours:
        return []
    last = max(ours, key=lambda row: row.bytes)
    name = f"{last.op}, {last.benchmark}, {last.dtype}"
    lines = [(name, last.method, last.case, *_cells(last))]
    if len(ours) > 1:
        means = (_mean(row.ratios[peer].value for row in ours if peer in row.ratios) for peer in (EAGER, COMPILED))
        lines.append((name, last.method, f"mean of {len(ours)}", "", "", "", *means))
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    assert row.seconds is not None
    rates = (_rate(row), _part(row.ratios.get(ROOFLINE)))
    return f"{row.seconds * 1e6:,.1f} µs", *rates, *(_times(row.ratios.get(peer)) for peer in (EAGER, COMPILED))


def _shapes(table: Sequence[Row]) -> str:
    """All cases of a table whose cases are shapes: the rate of each competitor, and the port against the fastest."""
    op, benchmark, dtype, _ = table[0].group
    peers = [name for name in PEERS if any(row.competitor == name for row in table)]
    head = (f"{op}, {benchmark}, {dtype}: GB/s", ROOFLINE, PORT, "of the roofline", *peers, "× the fastest peer")
    lines = []
    for case in dict.fromkeys(row.case for row in table):
        of = {row.competitor: row for row in table if row.case == case}
        if PORT in of:
            port, fastest = of[PORT], of[PORT].fastest_peer
            rates = [_rate(of[name]) if name in of else "" for name in (ROOFLINE, PORT)]
            others = [_rate(of[name]) if name in of else "" for name in peers]
            times = _times(fastest[1]) if fastest else ""
            lines.append((case, *rates, _part(port.ratios.get(ROOFLINE)), *others, times))
    return _table(head, lines)


def _rate(row: Row) -> str:
    return "" if row.gb_per_s is None else f"{row.gb_per_s:,.0f}"


def _part(value: Estimate | None) -> str:
    return "" if value is None else f"{value.value:.1%}{_spread(value)}"


def _times(value: Estimate | None) -> str:
    return "" if value is None else f"{value.value:.2f}{_spread(value)}"


def _spread(value: Estimate) -> str:
    """Half of the 95% interval, relative to the value."""
    return "" if value.spread is None else f" ±{value.spread:.1%}"


def _mean(values: Iterable[float]) -> str:
    """The geometric one."""
    known = list(values)
    return f"{math.exp(math.fsum(map(math.log, known)) / len(known)):.2f}" if known else ""


def _verdicts(results: Results) -> list[tuple[str, ...]]:
    marks = {True: "reached", False: "missed", None: "not measured"}
    return [
        (
            f"{figure.op}, {figure.benchmark}, {figure.method}: {figure.target}",
            "" if figure.measured is None else f"{figure.measured:.4f} ({figure.where})",
            marks[figure.passed],
        )
        for figure in results.figures
    ]


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def with_block(document: str, text: str, name: str = DOCUMENT) -> str:
    """Return ``document``, of that name, with ``text`` between the two comments.

    Raises:
        ValueError: one of the comments is missing, or they are in the wrong order.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{name} needs the lines '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n{text}{END}{after}"


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a document differs; write nothing")
    check = parser.parse_args(arguments).check

    from benchmarks.records import states_of

    results = results_in(root / RESULTS)
    states = {} if root != ROOT else states_of(root)
    differ = False
    for name, text in (
        (DOCUMENT, summary(results, states)),
        (TABLES, block(results, states, root / RESULTS / PROFILES)),
    ):
        document = root / name
        old = document.read_text(encoding="utf-8")
        new = with_block(old, text, name)
        if not check:
            document.write_text(new, encoding="utf-8")
        elif new != old:
            print(f"{name} differs from {RESULTS}: run python benchmarks/figures.py", file=sys.stderr)
            differ = True
    if check:
        return int(differ)
    if results:
        rows = tuple(row for _, one in results for row in one.rows)
        plot(Results(environment=results[-1][1].environment, rows=rows, figures=()), root / RESULTS / PLOT)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for benchmarks.records
    sys.exit(main())
