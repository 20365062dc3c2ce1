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
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from trifold.errors import TrifoldError
from trifold.implementation import Implementation, load_port, load_prototype, reference
from trifold.spec import Limits, Spec
from trifold.verification.cell import Cell, CheckFailed, NotRun, Search
from trifold.verification.checks import CHECKS, Check
from trifold.verification.job import Job
from trifold.verification.load_spec import load_spec
from trifold.verification.report import Failure, Row
from trifold.workspace import OpFiles, Workspace

# Numba's simulator starts a thread of the operating system for each CUDA thread: about 30 µs a thread.
_SIMULATOR = (Limits(elements=600), 40)
_COMPILED = (Limits(elements=100_000), 150)

BUILD = "build"
FINDINGS = "findings"


class Events:
    """Writes events for the runner."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def check(self, name: str) -> None:
        self._send({"event": "check", "name": name})

    def case(self, sample: str, code: str) -> None:
        self._send({"event": "case", "sample": sample, "code": code})

    def row(self, row: Row) -> None:
        self._send({"event": "row", "row": asdict(row)})

    def _send(self, event: dict[str, object]) -> None:
        self._stream.write(json.dumps(event) + "\n")
        self._stream.flush()


def run(job: Job, events: Events) -> None:
    """Run the job's checks; each sends a row, whatever happens in it."""
    files = Workspace.at(Path(job.workspace)).op(job.cell.op)

    started = time.monotonic()

    def row(check: str, outcome: str, **more: object) -> None:
        nonlocal started
        now = time.monotonic()
        more["seconds"] = round(now - started, 3)
        started = now
        events.row(Row(check, job.cell.implementation, job.cell.device, outcome, **more))  # type: ignore[arg-type]

    events.check(BUILD)
    events.case("", "")
    try:
        cell = _cell(job, files, events)
    except TrifoldError as error:
        if BUILD not in job.skip:
            row(BUILD, "failed", failures=(Failure(str(error)),))
        return
    except Exception as error:
        row(BUILD, "failed", failures=(Failure(f"{type(error).__name__}: {error}"),))
        return
    if _wanted(job, BUILD):
        row(BUILD, "passed", cases=1)
    if cell.spec.not_on_cpu and cell.kind == "port" and cell.device == "cpu":
        for check in _checks(job, cell.spec):
            row(check.name, "not run", reason=f"the port cannot run on the CPU: {cell.spec.not_on_cpu}")
        return
    for check in _checks(job, cell.spec):
        events.check(check.name)
        cell.cases = 0
        try:
            remark = check.run(cell) or ""
        except NotRun as reason:
            row(check.name, "not run", reason=str(reason))
        except CheckFailed as error:
            row(check.name, "failed", cases=cell.cases, failures=(cell.failure(error),))
        except Exception as error:
            failure = Failure(f"{type(error).__name__}: {error}", seed=job.seed)
            row(check.name, "failed", cases=cell.cases, failures=(failure,))
        else:
            if cell.cases == 0:
                row(check.name, "failed", failures=(Failure("the check ran no case, so it shows nothing"),))
            else:
                row(check.name, "passed", cases=cell.cases, reason=remark)
    if _wanted(job, FINDINGS):
        row(FINDINGS, "not run", reason="race and memory findings need the execution engine, which is not there yet")


def _wanted(job: Job, name: str) -> bool:
    return name not in job.skip and (not job.checks or name in job.checks)


def _checks(job: Job, spec: Spec) -> list[Check]:
    implementation, device = job.cell.implementation, job.cell.device
    checks = [check for check in CHECKS if device in check.devices]
    checks += [
        Check(f"property: {p.name}", _property(p.check), p.reason)
        for p in spec.properties
        if device in p.devices and implementation in p.implementations
    ]
    # Branches are counted over all other checks: they come last.
    checks.sort(key=lambda check: check.name == "branches")
    return [check for check in checks if _wanted(job, check.name)]


def _property(holds: Callable[[Callable[..., object], str], None]) -> Callable[[Cell], None]:
    def check(cell: Cell) -> None:
        cell.cases += 1
        cell.announce("property", "")
        try:
            holds(cell.implementation.function, cell.device)
        except AssertionError as error:
            raise CheckFailed(str(error) or "the property does not hold") from error

    return check


def _cell(job: Job, files: OpFiles, events: Events) -> Cell:
    spec = load_spec(files)
    implementation: Implementation
    if job.cell.implementation == "prototype":
        implementation = load_prototype(files, job.cell.device)
    else:
        implementation = load_port(files)
        if not (spec.not_on_cpu and job.cell.device == "cpu"):
            implementation.kernels(job.cell.device)
    simulated = (job.cell.implementation, job.cell.device) == ("prototype", "cpu")
    limits, examples = _SIMULATOR if simulated else _COMPILED
    search = Search(examples if job.examples is None else job.examples, job.seed)
    return Cell(spec, implementation, job.cell.device, reference(files), search, limits, events.case)


def main() -> None:
    for variable in ("LD_PRELOAD",):  # the guard is for this process, not for the compilers that it starts
        os.environ.pop(variable, None)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    with open(int(sys.argv[1]), "w", encoding="utf-8") as stream:
        run(Job.from_json(sys.stdin.read()), Events(stream))


if __name__ == "__main__":
    main()
