"""Writes README's figures, and their plot, from the JSON files in benchmarks/results/.

    python benchmarks/figures.py            rewrite README's block and the plot
    python benchmarks/figures.py --check    exit with 1 if README does not say what the JSON files say

The files are those that ``trifold bench --json`` wrote. The block stands between two comments in README.md.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from trifold.bench.plot import plot
from trifold.bench.rows import PORT, Results, Row, groups
from trifold.environment import describe

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
PLOT = "benchmarks/results/figures.png"


def results_in(folder: Path) -> list[tuple[Path, Results]]:
    """Each JSON file of ``folder``, by name."""
    return [(path, Results.read(path)) for path in sorted(folder.glob("*.json"))]


def block(results: Sequence[tuple[Path, Results]]) -> str:
    """The text between the two comments, with its heading; empty where there are no results."""
    if not results:
        return ""
    parts = ["\n## Figures"]
    for path, one in results:
        parts.append(f"{describe(one.environment)} (`benchmarks/results/{path.name}`)")
        parts.append(_table(_HEAD, _speeds(one.rows)))
        if one.figures:
            parts.append(_table(("target", "measured", "verdict"), _verdicts(one)))
    parts.append(f"![time and rate over size]({PLOT})")
    return "\n\n".join(parts) + "\n"


_HEAD = ("op", "timed by", "case", "port", "GB/s", "of the roofline", "× eager", "× torch.compile")


def _speeds(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """For each table its largest case, and the geometric mean over all where there are several."""
    lines = []
    for (op, benchmark, dtype, method), table in groups(rows).items():
        ours = [row for row in table if row.competitor == PORT and row.seconds]
        if not ours:
            continue
        last = max(ours, key=lambda row: row.bytes)
        name = f"{op}, {benchmark}, {dtype}"
        lines.append((name, method, last.case, *_cells(last)))
        if len(ours) > 1:
            eager, compiled = _mean(row.over_eager for row in ours), _mean(row.over_compiled for row in ours)
            lines.append((name, method, f"mean of {len(ours)}", "", "", "", _ratio(eager), _ratio(compiled)))
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    assert row.seconds is not None
    rate = "" if row.gb_per_s is None else f"{row.gb_per_s:,.0f}"
    roofline = "" if row.roofline is None else f"{row.roofline:.1%}"
    return f"{row.seconds * 1e6:,.1f} µs", rate, roofline, _ratio(row.over_eager), _ratio(row.over_compiled)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


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


def with_block(readme: str, text: str) -> str:
    """``readme`` with ``text`` between the two comments.

    Raises:
        ValueError: one of the comments is missing, or they stand in the wrong order.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md needs the lines '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n{text}{END}{after}"


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if README.md differs; write nothing")
    check = parser.parse_args(arguments).check

    readme = root / "README.md"
    results = results_in(root / "benchmarks" / "results")
    old = readme.read_text(encoding="utf-8")
    new = with_block(old, block(results))
    if check:
        if new != old:
            print("README.md differs from benchmarks/results: run python benchmarks/figures.py", file=sys.stderr)
        return int(new != old)
    readme.write_text(new, encoding="utf-8")
    if results:
        rows = tuple(row for _, one in results for row in one.rows)
        plot(Results(environment=results[-1][1].environment, rows=rows, figures=()), root / PLOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
