"""The results as plots: time or rate over size, one line a competitor.

Where a benchmark's cases are shapes, some with more rows and fewer columns than others, a line over bytes would say
nothing: the op then has a plot of its own, over its shapes in the order of the benchmark.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trifold.bench.rows import COMPETITORS, ROOFLINE, Results, Row, groups
from trifold.errors import TrifoldError

_COLOURS = {
    "eager": "#888888",
    "torch.compile": "#d97706",
    "liger": "#be185d",
    "quack": "#2563eb",
    "prototype": "#7c3aed",
    "port": "#0f766e",
}
_Panel = list[Row]


def by_shape(rows: Sequence[Row]) -> bool:
    """Whether the cases of a table of rates are shapes: of two of them, each is larger in one size."""
    shapes = {row.sizes for row in rows if row.method == "graph"}
    return any(
        any(map(operator.lt, one, other)) and any(map(operator.gt, one, other))
        for one, other in itertools.combinations(shapes, 2)
    )


def path_of(op: str, path: Path) -> Path:
    """Where the plot of an op over its shapes lies, beside ``path``."""
    return path.with_name(f"{path.stem}-{op}{path.suffix}")


def plot(results: Results, path: Path) -> list[Path]:
    """Write PNGs: a panel for each table with two cases or more; GB/s in graph replay, else time.

    Args:
        results: of one run.
        path: of the plot over sizes; the plot of an op over its shapes lies beside it, with ``-<op>`` in its name.

    Returns:
        What was written.

    Raises:
        TrifoldError: matplotlib is not installed, or no table has two cases.
    """
    panels = [rows for rows in groups(results.rows).values() if len({row.case for row in rows}) > 1]
    if not panels:
        raise TrifoldError("there is nothing to plot: no table has two cases", "measure more sizes")
    title = f"{results.environment['device']}, torch {results.environment['torch']}"
    shaped = [rows for rows in panels if by_shape(rows)]
    written = []
    for op in dict.fromkeys(rows[0].op for rows in shaped):
        mine = [rows for rows in shaped if rows[0].op == op]
        written.append(_write(mine, _panel_over_shapes, title, path_of(op, path), columns=2, width=6.5))
    others = [rows for rows in panels if rows not in shaped]
    if others:
        written.append(_write(others, _panel_over_bytes, title, path, columns=4, width=4.6))
    return written


def _write(
    panels: Sequence[_Panel],
    draw: Callable[[Any, _Panel], None],
    title: str,
    path: Path,
    *,
    columns: int,
    width: float,
) -> Path:
    """One PNG of ``panels``, at most ``columns`` beside each other, each ``width`` inches wide."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise TrifoldError("a plot needs matplotlib", "pip install matplotlib") from None

    columns = min(columns, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(width * columns, 3.5 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    for position, rows in enumerate(panels):
        axes = figure.add_subplot(lines, columns, position + 1)
        draw(axes, rows)
        op, benchmark, dtype, method = rows[0].group
        axes.set_title(f"{op} · {benchmark} · {dtype} · {method}", fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(True, which="major", alpha=0.25)
        axes.legend(fontsize=7)
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path


def _panel_over_bytes(axes: Any, rows: _Panel) -> None:
    rates = rows[0].method == "graph"
    for name in (*COMPETITORS, ROOFLINE):
        points = [(row.bytes, row.gb_per_s if rates else row.seconds) for row in rows if row.competitor == name]
        known = [(x, y if rates else y * 1e6) for x, y in points if y]
        if known:
            axes.plot(*zip(*sorted(known), strict=True), label=name, linewidth=1.2, **_style(name))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("bytes moved", fontsize=8)
    axes.set_ylabel("GB/s" if rates else "µs", fontsize=8)


def _panel_over_shapes(axes: Any, rows: _Panel) -> None:
    cases = list(dict.fromkeys(row.case for row in rows))
    for name in (*COMPETITORS, ROOFLINE):
        points = {row.case: row.gb_per_s for row in rows if row.competitor == name}
        heights = [points.get(case) or float("nan") for case in cases]  # nan: a gap, where it has failed
        if any(points.values()):
            axes.plot(range(len(cases)), heights, label=name, linewidth=1.2, **_style(name))
    axes.set_xticks(range(len(cases)), cases, rotation=30, ha="right")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GB/s", fontsize=8)


def _style(name: str) -> dict[str, Any]:
    if name == ROOFLINE:
        return {"color": "black", "linestyle": ":"}
    return {"color": _COLOURS[name], "marker": ".", "markersize": 4}
