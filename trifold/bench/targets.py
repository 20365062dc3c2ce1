"""Whether the port reached the targets that a benchmark states."""

from __future__ import annotations

import statistics
from collections.abc import Sequence, Set

import torch

from trifold.bench.interval import Estimate
from trifold.bench.peers import PACKAGES, has
from trifold.bench.rows import COMPILED, CUB, EAGER, PORT, Figure, Row
from trifold.spec.benchmark import Benchmark, Target

FASTEST = "the fastest peer"


def figures(op: str, benchmark: Benchmark, rows: Sequence[Row]) -> list[Figure]:
    """One figure for each target of ``benchmark``, from the rows of a run on a GPU."""
    mine = [row for row in rows if (row.op, row.benchmark) == (op, benchmark.name)]
    ours = [row for row in mine if row.competitor == PORT]
    # A peer that failed in a case, because it does not support the size, counts as competing; an absent one does not.
    # CUB's row says why it is not run if it does not support the arguments.
    met = {(_place(row), row.competitor) for row in mine if row.outcome != "not run" or row.competitor == CUB}
    return [_figure(op, benchmark, target, ours, met) for target in benchmark.targets]


_Place = tuple[str, str, str]  # method, case and dtype


def _place(row: Row) -> _Place:
    return row.method, row.case, row.dtype


def _measured(benchmark: Benchmark, target: Target, row: Row, met: Set[tuple[_Place, str]]) -> Estimate | None:
    """The value of ``target`` in the case of ``row``, a port's."""
    name = target.measure.removeprefix("over ")
    if name != FASTEST:
        return row.ratios.get(name)
    peers = {EAGER, COMPILED, *(name for name in PACKAGES if benchmark.peers and has(name, benchmark.peers))}
    peers |= {CUB} if benchmark.cub is not None else set()
    fastest = row.fastest_peer
    complete = all((_place(row), name) in met for name in peers)
    return fastest[1] if fastest is not None and (complete or fastest[1].value < target.at_least) else None


def _figure(op: str, benchmark: Benchmark, target: Target, ours: Sequence[Row], met: Set[tuple[_Place, str]]) -> Figure:
    host = target.method.startswith("host")
    by_label = {case.label: case for case in benchmark.cases}
    labels = target.cases or tuple(by_label)
    rows = [row for row in ours if row.method == target.method and (host or row.case in labels)]
    rows = [row for row in rows if row.bytes >= target.least_bytes]

    def applies(label: str, dtype: torch.dtype) -> bool:
        return label not in by_label or benchmark.bytes(by_label[label], dtype) >= target.least_bytes

    wanted = 1 if host else sum(applies(label, dtype) for label in labels for dtype in benchmark.dtypes)
    values = [(_measured(benchmark, target, row, met), row) for row in rows]
    known = [(value.value, row) for value, row in values if value is not None]

    measured: float | None = None
    where = f"{len(known)} of {wanted} cases measured"
    if known and target.mean is not None:
        mean = statistics.median if target.mean == "median" else statistics.geometric_mean
        measured = mean([value for value, _ in known])
        where = f"{target.mean} of {len(known)} cases"
    elif known:
        measured, row = min(known, key=lambda pair: pair[0])
        where = f"worst of {len(known)}: {row.case} {row.dtype}{_against(target, row)}"

    failed = any(row.outcome == "failed" for row in rows) or (measured is not None and measured < target.at_least)
    complete = len(known) == len(rows) >= max(wanted, 1)
    passed = None if target.mean is not None and not complete else False if failed else True if complete else None
    return Figure(
        op=op,
        benchmark=benchmark.name,
        method=target.method,
        target=_text(benchmark, target),
        at_least=target.at_least,
        measured=measured,
        where=where,
        passed=passed,
    )


def _against(target: Target, row: Row) -> str:
    fastest = row.fastest_peer if target.measure.endswith(FASTEST) else None
    return f", where that is {fastest[0]}" if fastest else ""


def _text(benchmark: Benchmark, target: Target) -> str:
    cases = f" at {', '.join(target.cases)}" if target.cases else ""
    cases += f" from {target.least_bytes >> 20:,} MiB on" if target.least_bytes else ""
    if target.measure == "roofline":
        return f"at least {target.at_least:.0%} of the {benchmark.roofline} rate{cases}"
    other = target.measure.removeprefix("over ")
    if target.at_least < 1:
        return f"at most {1 / target.at_least:.2f} × the time of {other}{cases}"
    mean = f" in the {target.mean}" if target.mean else ""
    return f"at least {target.at_least:.2f} × as fast as {other}{mean}{cases}"
