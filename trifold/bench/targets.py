"""Whether the port reached the targets that a benchmark states."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trifold.bench.rows import PORT, Figure, Row
from trifold.spec.benchmark import Benchmark, Target

_FIELDS = {"roofline": "roofline", "over eager": "over_eager", "over torch.compile": "over_compiled"}


def figures(op: str, benchmark: Benchmark, rows: Sequence[Row]) -> list[Figure]:
    """One figure for each target of ``benchmark``, from the rows of a run on a GPU."""
    ours = [row for row in rows if (row.op, row.benchmark, row.competitor) == (op, benchmark.name, PORT)]
    return [_figure(op, benchmark, target, ours) for target in benchmark.targets]


def _figure(op: str, benchmark: Benchmark, target: Target, ours: Sequence[Row]) -> Figure:
    host = target.method.startswith("host")
    labels = target.cases or tuple(case.label for case in benchmark.cases)
    rows = [row for row in ours if row.method == target.method and (host or row.case in labels)]
    wanted = 1 if host else len(labels) * len(benchmark.dtypes)
    values = [(getattr(row, _FIELDS[target.measure]), row) for row in rows]
    known = [(value, row) for value, row in values if value is not None]

    measured: float | None = None
    where = f"{len(known)} of {wanted} cases measured"
    if known and target.geometric_mean:
        measured = math.exp(math.fsum(math.log(value) for value, _ in known) / len(known))
        where = f"geometric mean of {len(known)} cases"
    elif known:
        measured, row = min(known, key=lambda pair: pair[0])
        where = f"worst of {len(known)}: {row.case} {row.dtype}"

    failed = any(row.outcome == "failed" for row in rows) or (measured is not None and measured < target.at_least)
    complete = len(known) == len(rows) >= wanted
    passed = None if target.geometric_mean and not complete else False if failed else True if complete else None
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


def _text(benchmark: Benchmark, target: Target) -> str:
    cases = f" at {', '.join(target.cases)}" if target.cases else ""
    if target.measure == "roofline":
        return f"at least {target.at_least:.0%} of the {benchmark.roofline} rate{cases}"
    other = target.measure.removeprefix("over ")
    if target.at_least < 1:
        return f"at most {1 / target.at_least:.2f} × the time of {other}{cases}"
    mean = " in the geometric mean" if target.geometric_mean else ""
    return f"at least {target.at_least:.2f} × as fast as {other}{mean}{cases}"
