"""Measures the benchmarks that the ops of a workspace state."""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trifold import record_sources
from trifold.bench import cub, drawn, resume
from trifold.bench.drawn import Drawing
from trifold.bench.entrants import Entrant, implementations
from trifold.bench.gradients import with_gradients
from trifold.bench.peers import absent, versions
from trifold.bench.prepare import first_calls, prepare
from trifold.bench.progress import Report
from trifold.bench.rows import CUB, DEFAULT_RIVALS, PORT, PROTOTYPE, Results, Row
from trifold.bench.run import EVERYTHING, Machine, Selection, Task, run, tasks
from trifold.bench.table import figure_lines, preparing, table
from trifold.bench.targets import figures
from trifold.bench.timing import Failure
from trifold.cells import Device
from trifold.errors import SpecError, TrifoldError
from trifold.machine.environment import describe, environment
from trifold.spec.benchmark import Benchmark
from trifold.workspace import OpFiles, Workspace, import_file


def acceptable(results: Results) -> bool:
    """Whether no target is missed and no port failed."""
    failed = any(row.competitor == PORT and row.outcome == "failed" for row in results.rows)
    return not failed and not any(figure.passed is False for figure in results.figures)


@dataclass(frozen=True)
class Plan:
    """The tasks of one benchmark of an op."""

    files: OpFiles
    benchmark: Benchmark
    tasks: tuple[Task, ...]


def measure_ops(
    workspace: Workspace,
    ops: Sequence[str],
    device: Device,
    *,
    selection: Selection = EVERYTHING,
    against: Sequence[str] = DEFAULT_RIVALS,
    drawing: Drawing | None = None,
    workers: int = 0,
    before: Results | None = None,
    stop_after: float = math.inf,
    show: Callable[[str], None] = lambda part: None,
    save: Callable[[Results], None] = lambda results: None,
) -> Results:
    """Measure the benchmarks of ``ops``; default: all that state one.

    Args:
        workspace: the workspace of the ops.
        ops: names.
        device: of the tensors.
        selection: which cases.
        against: the competitors, from :data:`trifold.bench.rows.RIVALS`.
        drawing: of shapes to measure in place of those that the benchmarks list.
        workers: processes that make the first calls before anything is timed, see :mod:`trifold.bench.prepare`.
        before: the results of an earlier run on this machine, which are kept and not measured again.
        stop_after: seconds after which no further case is started.
        show: called with each table when it is complete.
        save: called with the results after each case.

    Returns:
        All results, including the earlier ones, with ``"complete": False`` in their environment until nothing is left.

    Raises:
        TrifoldError: there is no GPU, no such op, none with a benchmark, ``selection`` leaves nothing, or ``before`` is
            from another environment.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise TrifoldError("--device cuda: torch sees no GPU here", "use --device cpu, or see trifold doctor")
    started = time.monotonic()
    place = torch.device(device)
    plans = _plans(workspace, ops, device, selection, drawing)
    facts = environment(workspace.root, place) | {
        "quick": selection.quick,
        "only": selection.text,
        "against": list(against),
        "libraries": {name: version for name, version in _versions().items() if name in against},
        "sources": record_sources.of_ops(
            workspace, dict.fromkeys(plan.files.name for plan in plans), device, prototypes=PROTOTYPE in against
        ),
    }
    if drawing is not None:
        facts["shapes"] = str(drawing)
    known = resume.known(before, facts)
    report = Report(sum(len(plan.tasks) for plan in plans), show)
    report.text(describe(facts))
    for line in (*absent(against), *filter(None, [cub.absent() if CUB in against else ""])):
        report.text(line)
    pending = [task for plan in plans for task in plan.tasks if task.key not in known]
    fatal = _prepare(pending, workspace, device, against, workers, show) if workers else {}
    machine = Machine(place, seconds=0.05 if selection.quick else 0.25, against=against, fatal=fatal)
    loaded = functools.cache(lambda op: implementations(workspace.op(op), device, against))
    rows = [row for of_case in known.values() for row in of_case]

    def results(*, complete: bool = False) -> Results:
        judged = [one for plan in plans for one in figures(plan.files.name, plan.benchmark, rows)]
        return Results(
            environment=facts | resume.of_both(before, facts) | {"complete": complete},
            rows=tuple(rows),
            figures=resume.merged(before, judged) if device == "cuda" else (),
        )

    for part in _tables(plans):
        measured: list[Row] = []
        for task in report.steps(part, lambda task: task.label):
            if task.key not in known and time.monotonic() - started < stop_after:
                known[task.key] = _run(task, loaded(task.op), machine)
                rows += known[task.key]
                save(results())
            measured += known.get(task.key, ())
        if measured:
            report.text("\n" + table(measured))
    left = sum(task.key not in known for task in pending)
    done = results(complete=not left)
    save(done)
    if drawing is not None:
        report.text("\n" + drawn.report(drawing, done.rows))
    if done.figures:
        report.text("\n" + figure_lines(done.figures))
    report.text("\n" + preparing(done.rows))
    if left:
        report.text(f"\nStopped: {left} cases are left; --resume continues")
    return done


def _versions() -> dict[str, str | None]:
    return {**versions(), CUB: cub.version()}


def _prepare(
    planned: Sequence[Task],
    workspace: Workspace,
    device: Device,
    against: Sequence[str],
    workers: int,
    show: Callable[[str], None],
) -> dict[tuple[str, ...], str]:
    """Make the first calls of the tasks ``planned``; returns those that would end this process too, with the reason."""
    calls = first_calls(planned, against, device)
    if not calls:
        return {}
    report = Report(len(calls), show)
    made = prepare(calls, workspace, device, workers, on_finished=lambda call: report.over(call.label))
    report.text(made.text)
    return made.fatal


def _run(task: Task, implementations: Mapping[str, Entrant], machine: Machine) -> list[Row]:
    """A competitor's exception is its result; only a GPU that no longer answers this process ends the run."""
    try:
        return run(task, implementations, machine)
    except RuntimeError as error:
        raise TrifoldError(
            f"{task.label}: {Failure.of(error).reason}; a kernel has left the GPU unusable for this process",
            "find whose with --only and --against, and go on without; --json has the cases before",
        ) from error


def _plans(
    workspace: Workspace, ops: Sequence[str], device: Device, selection: Selection, drawing: Drawing | None
) -> list[Plan]:
    found = [(files, benchmark) for files in workspace.select(ops) for benchmark in benchmarks_of(files)]
    if drawing is not None:
        found = [(files, drawing.applied(benchmark, torch.device(device))) for files, benchmark in found]
    plans = [
        Plan(files, benchmark, tuple(tasks(files.name, benchmark, device, selection))) for files, benchmark in found
    ]
    planned = [plan for plan in plans if plan.tasks]
    if not planned:
        names = ", ".join(dict.fromkeys(files.name for files, _ in found)) or "these ops"
        raise SpecError(
            f"there is nothing to measure for {names}{selection.described}",
            "list benchmarks in Spec(benchmarks=...), or widen --only, --shapes and --dtypes",
        )
    return planned


def _tables(plans: Sequence[Plan]) -> Iterator[list[Task]]:
    """The tasks that share a table, in order."""
    for plan in plans:
        for _, part in itertools.groupby(plan.tasks, key=lambda task: (task.dtype, task.method)):
            yield list(part)


def benchmarks_of(files: OpFiles) -> tuple[Benchmark, ...]:
    """``spec.benchmarks`` of ``verify/<op>.py``, with their gradients as stated by the spec or the wiring.

    Raises:
        SpecError: the file has no ``spec``, or it lists something other than benchmarks, or two have one name, or they
            need a gradient that does not exist.
    """
    module: Any = import_file(files.spec, f"trifold_bench_spec_{files.name}")
    spec: Any = getattr(module, "spec", None)
    found = getattr(spec, "benchmarks", None)
    if found is None or not all(isinstance(benchmark, Benchmark) for benchmark in found):
        raise SpecError(f"{files.spec} has no spec with benchmarks", "write spec = Spec(..., benchmarks=(...))")
    names = [benchmark.name for benchmark in found]
    if len(set(names)) < len(names):
        raise SpecError(f"{files.spec}: two benchmarks have one name: {', '.join(names)}", "give each its own")
    return tuple(with_gradients(files, spec, benchmark) for benchmark in found)
