"""The process that runs one cell's checks: ``python -m trifold.verification.worker``.

It reads a job from standard input and writes events, one JSON object a line, to the file descriptor that its only
argument names: ``check`` (one begins), ``case`` (what is about to run, for the case that it never returns), ``row``
(one ended). What the op prints goes to standard output and standard error, which the runner keeps.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from trifold.errors import TrifoldError
from trifold.implementation import Implementation, load_port, load_prototype, reference
from trifold.spec import Limits, Property, Spec
from trifold.verification import coverage, gcov
from trifold.verification.cell import Cell, CheckFailed, NotRun, Search
from trifold.verification.checks import CHECKS, Check
from trifold.verification.job import CellName, Job
from trifold.verification.load_spec import load_spec
from trifold.verification.report import Failure, OutcomeName, Row
from trifold.workspace import OpFiles, Workspace

_SIMULATOR = (Limits(elements=20_000), 100)
_COMPILED = (Limits(elements=100_000), 150)

BUILD = "build"
PROPERTY = "property: "  # the row of a property begins with this


class Events:
    """Writes events for the runner."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def check(self, name: str) -> None:
        self._send({"event": "check", "name": name})

    def case(self, sample: str, code: str, element_bytes: int = 0) -> None:
        self._send({"event": "case", "sample": sample, "code": code, "element_bytes": element_bytes})

    def row(self, row: Row) -> None:
        self._send({"event": "row", "row": asdict(row)})

    def _send(self, event: dict[str, object]) -> None:
        self._stream.write(json.dumps(event) + "\n")
        self._stream.flush()


def run(job: Job, events: Events) -> None:
    """Run the job's checks; each that was asked for sends a row, whatever happens in it."""
    files = Workspace.at(Path(job.workspace)).op(job.cell.op)
    rows = _Rows(job, events)
    events.check(BUILD)
    try:
        cell = _cell(job, files, events)
    except Exception as error:
        text = str(error) if isinstance(error, TrifoldError) else f"{type(error).__name__}: {error}"
        rows.send(BUILD, "failed", failures=(Failure(text),), always=True)
        return
    rows.send(BUILD, "passed", cases=1)
    for check in _checks(job, cell.spec):
        if cell.spec.not_on_cpu and cell.kind == "port" and cell.device == "cpu":
            rows.send(check.name, "not run", reason=f"the port cannot run on the CPU: {cell.spec.not_on_cpu}")
        else:
            events.check(check.name)
            _run_check(check, cell, rows)


class _Rows:
    """Sends the rows that were asked for, each with the seconds since the one before."""

    def __init__(self, job: Job, events: Events) -> None:
        self._job, self._events, self._started = job, events, time.monotonic()

    def send(
        self,
        check: str,
        outcome: OutcomeName,
        *,
        cases: int = 0,
        reason: str = "",
        failures: tuple[Failure, ...] = (),
        always: bool = False,
    ) -> None:
        now = time.monotonic()
        seconds, self._started = round(now - self._started, 3), now
        if always or _wanted(self._job, check):
            cell = self._job.cell
            self._events.row(Row(check, cell.implementation, cell.device, outcome, cases, reason, failures, seconds))


def _run_check(check: Check, cell: Cell, rows: _Rows) -> None:
    cell.cases = 0
    try:
        remark = check.run(cell) or ""
    except NotRun as reason:
        rows.send(check.name, "not run", reason=str(reason))
    except CheckFailed as error:
        rows.send(check.name, "failed", cases=cell.cases, failures=(cell.failure(error),))
    except Exception as error:
        failure = Failure(f"{type(error).__name__}: {error}", seed=cell.search.seed)
        rows.send(check.name, "failed", cases=cell.cases, failures=(failure,))
    else:
        if cell.cases == 0:
            rows.send(check.name, "failed", failures=(Failure("the check ran no case, so it shows nothing"),))
        else:
            rows.send(check.name, "passed", cases=cell.cases, reason=remark)


def _wanted(job: Job, name: str) -> bool:
    return name not in job.skip and (not job.checks or name in job.checks)


def _checks(job: Job, spec: Spec) -> list[Check]:
    """The checks to run: those that were asked for, and before each what it looks at."""
    device = job.cell.device
    possible = [check for check in CHECKS if device in check.devices]
    possible += [property_check(p) for p in spec.properties if applies(p, job.cell)]
    # Branches are counted over all other checks: they come last.
    possible.sort(key=lambda check: check.name == "branches")
    asked = {check.name for check in possible if _wanted(job, check.name)}
    needed = {name for check in possible if check.name in asked for name in check.after} - set(job.skip)
    return [check for check in possible if check.name in asked | needed]


def _needs_build(job: Job, spec: Spec) -> bool:
    return _wanted(job, BUILD) or not all(check.own_build for check in _checks(job, spec))


def property_check(stated: Property) -> Check:
    """A property of a spec as a check."""

    def run_property(cell: Cell) -> None:
        cell.cases += 1
        cell.announce("property", "")
        try:
            stated.check(cell.implementation.function, cell.device)
        except AssertionError as error:
            raise CheckFailed(str(error) or "the property does not hold") from error

    return Check(f"{PROPERTY}{stated.name}", run_property, stated.reason)


def applies(stated: Property, cell: CellName) -> bool:
    return cell.device in stated.devices and cell.implementation in stated.implementations


def _cell(job: Job, files: OpFiles, events: Events) -> Cell:
    spec = load_spec(files)
    implementation: Implementation
    if job.cell.implementation == "prototype":
        implementation = load_prototype(files, job.cell.device)
    else:
        implementation = load_port(files, "fast" if job.coverage is None else "coverage")
        if not (spec.not_on_cpu and job.cell.device == "cpu") and _needs_build(job, spec):
            library = implementation.kernels(job.cell.device)
            if job.coverage is not None and library is not None:
                gcov.keep_notes(library.path, Path(job.coverage))
    simulated = (job.cell.implementation, job.cell.device) == ("prototype", "cpu")
    limits, examples = _SIMULATOR if simulated else _COMPILED
    search = Search(examples if job.examples is None else job.examples, job.seed)
    return Cell(spec, implementation, job.cell.device, reference(files), search, limits, events.case)


def work(request: str, events: int) -> None:
    """Run a job, which is given as JSON; ``events`` is the file descriptor to write to, and is closed."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    job = Job.from_json(request)
    with open(events, "w", encoding="utf-8") as stream, _counting(job):
        run(job, Events(stream))


def _counting(job: Job) -> AbstractContextManager[None]:
    """Counts the lines of a prototype, if that was asked for. A port's library counts by itself."""
    if job.coverage is None or job.cell.implementation == "port":
        return nullcontext()
    files = Workspace.at(Path(job.workspace)).op(job.cell.op)
    return coverage.of_prototype(files.prototype, Path(job.coverage))


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)  # the guard is for this process, not for the compilers that it starts
    work(sys.stdin.read(), int(sys.argv[1]))
