"""Measures the benchmarks that the ops of a workspace state."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trifold.bench.entrants import Entrant, implementations
from trifold.bench.rows import PORT, Figure, Results, Row
from trifold.bench.run import Machine, Task, run, tasks
from trifold.bench.table import figure_lines, table
from trifold.bench.targets import figures
from trifold.cells import Device
from trifold.environment import describe, environment
from trifold.errors import SpecError, TrifoldError
from trifold.spec.benchmark import Benchmark
from trifold.workspace import OpFiles, Workspace, import_file


def acceptable(results: Results) -> bool:
    """No target is missed and no port failed."""
    failed = any(row.competitor == PORT and row.outcome == "failed" for row in results.rows)
    return not failed and not any(figure.passed is False for figure in results.figures)


def measure_ops(
    workspace: Workspace,
    ops: Sequence[str],
    device: Device,
    *,
    quick: bool = False,
    only: str = "",
    compiled: bool = True,
    show: Callable[[str], None] = lambda part: None,
) -> Results:
    """Measure the benchmarks of ``ops`` (all that state one where none is named).

    Args:
        workspace: that they belong to.
        ops: names.
        device: of the tensors.
        quick: three cases a benchmark, shorter readings.
        only: measure what has this text in ``"op benchmark dtype method case"``.
        compiled: whether torch.compile competes.
        show: takes each table as soon as it is whole.

    Raises:
        TrifoldError: there is no GPU, no such op, none with a benchmark, or ``only`` leaves nothing.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise TrifoldError("--device cuda: torch sees no GPU here", "use --device cpu, or see trifold doctor")
    place = torch.device(device)
    facts = environment(workspace.root, place)
    plans = [(files, benchmarks_of(files)) for files in workspace.select(ops)]
    work = [
        (files, benchmark, [task for task in tasks(files.name, benchmark, device, quick=quick) if only in task.label])
        for files, benchmarks in plans
        for benchmark in benchmarks
    ]
    if not any(planned for _, _, planned in work):
        names = ", ".join(files.name for files, _ in plans)
        raise SpecError(
            f"there is nothing to measure for {names}" + (f" with '{only}'" if only else ""),
            "list benchmarks in Spec(benchmarks=...), or widen --only",
        )

    show(describe(facts))
    machine = Machine(place, seconds=0.05 if quick else 0.25, compiled=compiled)
    rows: list[Row] = []
    judged: list[Figure] = []
    loaded = functools.cache(lambda op: implementations(workspace.op(op), device))
    for files, benchmark, planned in work:
        measured: list[Row] = []
        for _, part in itertools.groupby(planned, key=lambda task: (task.dtype, task.method)):
            table_rows = [row for task in part for row in _measure(task, loaded(files.name), machine)]
            show("\n" + table(table_rows))
            measured += table_rows
        rows += measured
        if device == "cuda" and planned:
            judged += figures(files.name, benchmark, measured)
    if judged:
        show("\n" + figure_lines(judged))
    return Results(environment=facts | {"quick": quick, "only": only}, rows=tuple(rows), figures=tuple(judged))


def _measure(task: Task, implementations: Mapping[str, Entrant], machine: Machine) -> list[Row]:
    """Time one task, and say on a terminal which."""
    if not sys.stderr.isatty():
        return run(task, implementations, machine)
    print(f"\r\033[K{task.label}", end="", file=sys.stderr, flush=True)
    try:
        return run(task, implementations, machine)
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def benchmarks_of(files: OpFiles) -> tuple[Benchmark, ...]:
    """``spec.benchmarks`` of ``verify/<op>.py``.

    Raises:
        SpecError: the file has no ``spec``, or what it lists are no benchmarks, or two have one name.
    """
    module: Any = import_file(files.spec, f"trifold_bench_spec_{files.name}")
    found = getattr(getattr(module, "spec", None), "benchmarks", None)
    if found is None or not all(isinstance(benchmark, Benchmark) for benchmark in found):
        raise SpecError(f"{files.spec} has no spec with benchmarks", "write spec = Spec(..., benchmarks=(...))")
    names = [benchmark.name for benchmark in found]
    if len(set(names)) < len(names):
        raise SpecError(f"{files.spec}: two benchmarks have one name: {', '.join(names)}", "give each its own")
    return tuple(found)
