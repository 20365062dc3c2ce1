"""The results as plots: time or rate over size, one line per competitor.

If a benchmark's cases are shapes, some with more rows and fewer columns than others, a line over bytes would be
meaningless: these have a separate plot, of the share of the roofline over the shapes in the order of the benchmark. A
panel there has all dtypes, and the panels of an op are next to each other.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trifold.bench.rows import COMPETITORS, PORT, ROOFLINE, Results, Row, groups
from trifold.errors import TrifoldError

_COLOURS = {
    "eager": "#888888",
    "torch.compile": "#d97706",
    "liger": "#be185d",
    "quack": "#2563eb",
    "cub": "#65a30d",
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


def path_over_shapes(path: Path) -> Path:
    """The path of the plot over shapes, in the same folder as ``path``."""
    return path.with_name(f"{path.stem}-shapes{path.suffix}")


def plot(results: Results, path: Path) -> list[Path]:
    """Write PNGs: a panel for each table with two cases or more; GB/s in graph replay, else time.

    Args:
        results: of one run.
        path: of the plot over sizes; the plot over shapes is written next to it, with ``-shapes`` in its name.

    Returns:
        The files written.

    Raises:
        TrifoldError: matplotlib is not installed, or no table has two cases.
    """
    panels = [rows for rows in groups(results.rows).values() if len({row.case for row in rows}) > 1]
    if not panels:
        raise TrifoldError("there is nothing to plot: no table has two cases", "measure more sizes")
    title = f"{results.environment['device']}, torch {results.environment['torch']}"
    shaped = [rows for rows in panels if by_shape(rows)]
    others = [rows for rows in panels if rows not in shaped]
    written = []
    if shaped:
        written.append(_write(_over_shapes(shaped), title, path_over_shapes(path)))
    if others:
        written.append(_write(_over_bytes(others), title, path))
    return written


def _write(figure: Any, title: str, path: Path) -> Path:
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path


def _figure(columns: int, lines: int, size: tuple[float, float]) -> Any:
    """A figure of ``columns`` × ``lines`` panels, each of ``size`` inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise TrifoldError("a plot needs matplotlib", "pip install matplotlib") from None

    figure = Figure(figsize=(size[0] * columns, size[1] * lines), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=7)
    axes.grid(True, which="major", alpha=0.25)


def _over_bytes(panels: Sequence[_Panel]) -> Any:
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure = _figure(columns, lines, (4.6, 3.5))
    for position, rows in enumerate(panels):
        axes = figure.add_subplot(lines, columns, position + 1)
        _panel_over_bytes(axes, rows)
        op, benchmark, dtype, method = rows[0].group
        _dress(axes, f"{op} · {benchmark} · {dtype} · {method}")
        axes.legend(fontsize=7)
    return figure


def _over_shapes(tables: Sequence[_Panel]) -> Any:
    """A row of panels for each op, with a panel for each benchmark."""
    panels: dict[str, dict[str, _Panel]] = {}
    for rows in tables:
        op, benchmark, *_ = rows[0].group
        panels.setdefault(op, {}).setdefault(benchmark, []).extend(rows)
    columns = max(map(len, panels.values()))
    figure = _figure(columns, len(panels), (6.5, 3.2))
    for line, (op, benchmarks) in enumerate(panels.items()):
        in_order = sorted(benchmarks.items(), key=lambda item: item[0] != "forward")  # whichever came first
        for column, (benchmark, rows) in enumerate(in_order):
            axes = figure.add_subplot(len(panels), columns, line * columns + column + 1)
            _panel_over_shapes(axes, rows)
            _dress(axes, f"{op} · {benchmark}")
    _key_of_shapes(figure, [row for rows in tables for row in rows])
    return figure


def _key_of_shapes(figure: Any, rows: Sequence[Row]) -> None:
    """One legend for all panels, below them: colours of competitors, strokes of dtypes."""
    from matplotlib.lines import Line2D

    names = [name for name in COMPETITORS if any(row.competitor == name for row in rows)]
    dtypes = list(dict.fromkeys(row.dtype for row in rows))
    lines = [Line2D([], [], **_line(name)) for name in names]
    lines += [Line2D([], [], color="black", **_stroke(number)) for number in range(len(dtypes))]
    figure.legend(lines, [*names, *dtypes], loc="outside lower center", ncols=len(lines), fontsize=8, frameon=False)


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
    for number, dtype in enumerate(dict.fromkeys(row.dtype for row in rows)):
        for name in COMPETITORS:
            parts = {row.case: row.ratios.get(ROOFLINE) for row in rows if (row.competitor, row.dtype) == (name, dtype)}
            heights = [100 * part.value if (part := parts.get(case)) else float("nan") for case in cases]  # nan: a gap
            axes.plot(range(len(cases)), heights, **_line(name), **_stroke(number))
    axes.axhline(100, color="black", linewidth=0.8, linestyle=":")
    axes.set_xticks(range(len(cases)), cases, rotation=25, ha="right")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("% of the copy's rate", fontsize=8)


def _line(name: str) -> dict[str, Any]:
    return {"color": _COLOURS[name], "marker": "o", "markersize": 3, "linewidth": 2 if name == PORT else 1.2}


def _stroke(number: int) -> dict[str, Any]:
    """The stroke of the dtype at this position."""
    return {"linestyle": ("-", "--", "-.", ":")[number % 4], "markerfacecolor": None if number == 0 else "white"}


def _style(name: str) -> dict[str, Any]:
    if name == ROOFLINE:
        return {"color": "black", "linestyle": ":"}
    return {"color": _COLOURS[name], "marker": ".", "markersize": 4}
