"""The results as a plot: time or rate over size, one line a competitor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trifold.bench.rows import COMPETITORS, ROOFLINE, Results, Row, groups
from trifold.errors import TrifoldError

_COLOURS = {"eager": "#888888", "torch.compile": "#d97706", "prototype": "#7c3aed", "port": "#0f766e"}


def plot(results: Results, path: Path) -> None:
    """Write a PNG: a panel for each table with two cases or more; GB/s in graph replay, else time.

    Raises:
        TrifoldError: matplotlib is not installed, or no table has two cases.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise TrifoldError("a plot needs matplotlib", "pip install matplotlib") from None

    panels = [rows for rows in groups(results.rows).values() if len({row.case for row in rows}) > 1]
    if not panels:
        raise TrifoldError("there is nothing to plot: no table has two cases", "measure more sizes")
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.5 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    for position, rows in enumerate(panels):
        _panel(figure.add_subplot(lines, columns, position + 1), rows)
    figure.suptitle(f"{results.environment['device']}, torch {results.environment['torch']}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _panel(axes: Any, rows: Sequence[Row]) -> None:
    op, benchmark, dtype, method = rows[0].group
    rates = method == "graph"
    for name in (*COMPETITORS, ROOFLINE):
        points = [(row.bytes, row.gb_per_s if rates else row.seconds) for row in rows if row.competitor == name]
        known = [(x, y if rates else y * 1e6) for x, y in points if y]
        if known:
            style = (
                {"color": "black", "linestyle": ":"} if name == ROOFLINE else {"color": _COLOURS[name], "marker": "."}
            )
            axes.plot(*zip(*sorted(known), strict=True), label=name, linewidth=1.2, markersize=4, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(f"{op} · {benchmark} · {dtype} · {method}", fontsize=9)
    axes.set_xlabel("bytes moved", fontsize=8)
    axes.set_ylabel("GB/s" if rates else "µs", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(True, which="major", alpha=0.25)
    axes.legend(fontsize=7)
