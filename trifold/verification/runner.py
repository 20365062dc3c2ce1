"""Runs each cell in its own worker process, and decides the outcome of its rows.

The rows that must be reported are known before the worker starts: the checks, and the properties that it names after
loading the spec. A row that is not reported has failed; so has a worker that ends before its last event. A row that is
"not run" must have one of the reasons of :class:`~trifold.verification.outcomes.Absence`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import IO, Any

from trifold import own_process
from trifold.cpu.settings import KERNEL_SECONDS
from trifold.isolation import guard, nursery
from trifold.isolation.nursery import Forked
from trifold.verification import bytecode, threads
from trifold.verification.checks import CHECKS
from trifold.verification.job import WORKER, Job
from trifold.verification.outcomes import Absence
from trifold.verification.remote_errors import cause_of_death
from trifold.verification.remote_process import START_S, kill_session
from trifold.verification.report import BUILD, INTERRUPTED, OTHER_CHECKS, Failure, Row, row_from_json
from trifold.verification.watch import Watch

_RESTARTS = 3  # workers of a cell that may die before its other checks are given up
# The op's process has the time limit of a case; the worker, which waits for it many times in a case, has more.
_PATIENCE = 4.0


class Stop:
    """Ends the cells that other threads run: each returns the rows that its worker has reported so far."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self.is_set = False

    def set(self) -> None:
        self.is_set = True
        os.write(self._write, b"!")

    def fileno(self) -> int:
        """A file descriptor that becomes readable once this is set."""
        return self._read

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        os.close(self._read)


class _Stopped(Exception):
    def __init__(self, progress: _Progress) -> None:
        self.progress = progress


@dataclass
class _Progress:
    """The worker's reports so far."""

    check: str = ""
    sample: str = ""
    properties: tuple[str, ...] = ()
    done: str = ""
    ops: list[int] = field(default_factory=list)
    builder: int = 0  # the process that builds; 0: none
    rows: list[Row] = field(default_factory=list)
    heard: float = field(default_factory=time.monotonic)

    @property
    def builds(self) -> bool:
        """Whether the worker is starting or building."""
        return self.check in ("", BUILD)

    def take(self, event: dict[str, Any]) -> None:
        self.heard = time.monotonic()
        match event["event"]:
            case "plan":
                self.properties = tuple(event["properties"])
            case "op":
                self.ops.append(event["pid"])
            case "builder":
                self.builder = event["pid"]
            case "check":
                self.check, self.sample = event["name"], ""
            case "case":
                self.sample = event["sample"]
            case "row":
                self.rows.append(row_from_json(event["row"]))
            case "done":
                self.done = event["nonce"]


def run_cell(job: Job, *, timeout: float, watch: Watch | None = None, stop: Stop | None = None) -> list[Row]:
    """All rows of a cell.

    Args:
        job: what to run.
        timeout: seconds that one case may take.
        watch: notified of each check that begins or ends.
        stop: ends the run, from another thread: the rows are those reported until then.
    """
    with tempfile.TemporaryDirectory(prefix="trifold-compiled-") as compiled:
        environment = _environment(job, timeout, compiled)
        return _run_cell(replace(job, timeout=timeout), environment, watch or Watch(), stop)


def _run_cell(job: Job, environment: dict[str, str], watch: Watch, stop: Stop | None) -> list[Row]:
    rows: list[Row] = []
    died = 0
    cell = job.cell
    while True:
        job = replace(job, nonce=secrets.token_hex(16))
        try:
            progress, death = _run_worker(job, environment, watch, stop)
        except _Stopped as stopped:
            names = (stopped.progress.check or BUILD, OTHER_CHECKS)
            left = (Row(name, cell.implementation, cell.device, "not run", reason=INTERRUPTED) for name in names)
            return [*rows, *stopped.progress.rows, *left]
        rows += [_accepted(row) for row in progress.rows]
        if death is None:
            return [*rows, *_missing(job, progress, rows)]
        check = progress.check or BUILD
        if not any(row.check == check and row.outcome == "failed" for row in rows):
            rows = [row for row in rows if row.check != check]
            rows.append(_failed(job, check, Failure(f"{death} during {check}", progress.sample, seed=job.seed)))
        died += 1
        job = replace(job, skip=tuple(sorted({row.check for row in rows})))
        if check == BUILD or died >= _RESTARTS:
            reason = f"given up after the process died in: {', '.join(r.check for r in rows if r.failures)}"
            rows.append(Row(OTHER_CHECKS, cell.implementation, cell.device, "not run", reason=reason))
            return rows


def _accepted(row: Row) -> Row:
    """The row; failed if it was not run for a reason that is not one of the toolkit's own."""
    if row.outcome != "not run" or row.check == OTHER_CHECKS or row.reason.startswith(tuple(Absence)):
        return row
    return replace(row, outcome="failed", failures=(Failure(f"it was not run, and may not be left out: {row.reason}"),))


def _missing(job: Job, progress: _Progress, rows: Iterable[Row]) -> list[Row]:
    """A failed row for each that should have been reported and was not; none if the build failed, which has a row."""
    came = {row.check: row.outcome for row in rows}
    if came.get(BUILD) == "failed" or OTHER_CHECKS in came:
        return []
    failure = Failure(f"this row did not come: the worker ended during {progress.check or 'its start'}", seed=job.seed)
    return [_failed(job, name, failure) for name in asked_checks(job, progress.properties) if name not in came]


def asked_checks(job: Job, properties: Iterable[str] = ()) -> list[str]:
    """The names of the rows that a job must report: all checks of its device and the given properties, as far as
    requested."""
    possible = [BUILD, *(check.name for check in CHECKS if job.cell.device in check.devices), *properties]
    return [name for name in possible if not job.checks or name in job.checks]


def _failed(job: Job, check: str, failure: Failure) -> Row:
    return Row(check, job.cell.implementation, job.cell.device, "failed", failures=(failure,))


def _run_worker(job: Job, environment: dict[str, str], watch: Watch, stop: Stop | None) -> tuple[_Progress, str | None]:
    """The worker's reports, and how it died if it did not end by itself.

    Raises:
        _Stopped: ``stop`` was set before the worker's end.
    """
    progress = _Progress()
    with tempfile.TemporaryFile() as output:
        read, write = os.pipe()
        with open(read, "rb", buffering=0) as events:
            process = _start(job, environment, write, output.fileno())
            os.close(write)
            _give_way(process.pid, job.nice)
            try:
                silent = _listen(
                    events, progress, job.timeout, lambda event: _pass_on(job, event, progress, watch), stop
                )
            except BaseException:  # Ctrl-C: leave no worker running
                _end(process, progress)
                raise
            if silent is not None:
                _end(process, progress)
                return progress, f"no answer for {silent:g} s: it hangs, or is too slow for --timeout {job.timeout:g}"
            status = process.wait()
        if status == 0 and progress.done == job.nonce:
            return progress, None
        _end(process, progress)
        return progress, cause_of_death(status, output, 0).replace("the process", "the worker")


def _start(job: Job, environment: dict[str, str], events: int, output: int) -> subprocess.Popen[bytes] | Forked:
    """Start a worker that leads a process group: forked if a nursery is open and can serve, else a fresh process."""
    if job.coverage is None:
        of_op = guard.preload_environment() if job.cell.device == "cpu" else {}
        forked = nursery.start(WORKER, job.to_json(), environment | of_op, events, output)
        if forked is not None:
            return forked
    process = subprocess.Popen(
        own_process.command(WORKER, str(events)),
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=(events,),
        env=environment,
        start_new_session=True,  # so that a hung worker can be killed together with its compilers
    )
    assert process.stdin is not None
    process.stdin.write(job.to_json().encode())
    process.stdin.close()
    return process


def _listen(
    events: IO[bytes], progress: _Progress, timeout: float, pass_on: Callable[[dict[str, Any]], None], stop: Stop | None
) -> float | None:
    """Read events until the worker closes its end; returns None, or the seconds for which it was silent too long."""
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(events, selectors.EVENT_READ)
        if stop is not None:
            selector.register(stop, selectors.EVENT_READ)
        while True:
            limit = max(_PATIENCE * timeout, START_S) if progress.builds else _PATIENCE * timeout + 60.0
            ready = [key.fileobj for key, _ in selector.select(max(0.0, progress.heard + limit - time.monotonic()))]
            if not ready:
                return limit
            if events in ready:  # read them first: what was reported before the stop counts
                chunk = events.read(1 << 16)
                if not chunk:
                    return None
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    progress.take(event)
                    pass_on(event)
            if stop in ready:
                raise _Stopped(progress)


def _pass_on(job: Job, event: dict[str, Any], progress: _Progress, watch: Watch) -> None:
    match event["event"]:
        case "op" | "builder" if event["pid"]:
            _give_way(event["pid"], job.nice)
        case "plan":
            watch.planned(job.cell, asked_checks(job, progress.properties))
        case "check":
            watch.began(job.cell, progress.check)
        case "row":
            watch.ended(job.cell, progress.rows[-1])


def _give_way(leader: int, nice: int) -> None:
    """Lower the priority of a process that leads its process group, and so of all that it starts from now on."""
    if nice:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.setpriority(os.PRIO_PGRP, leader, min(19, os.getpriority(os.PRIO_PROCESS, 0) + nice))


def _end(process: subprocess.Popen[bytes] | Forked, progress: _Progress) -> None:
    """Kill a worker and its op's processes, in whatever state they are."""
    kill_session(process.pid)
    for op in (*progress.ops[-1:], progress.builder):
        if op:
            kill_session(op)
    process.wait()


def _environment(job: Job, timeout: float, compiled: str) -> dict[str, str]:
    """The environment of a cell's worker; Numba stores what it compiles for a GPU in the folder ``compiled``."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | threads.OF_A_WORKER | bytecode.environment()
    # A kernel that does not end should report itself before the worker's limit, with its name and thread.
    environment.setdefault(KERNEL_SECONDS, f"{timeout / 2:g}")
    if job.cell.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    simulate = job.cell != replace(job.cell, implementation="prototype", device="cuda")
    environment["NUMBA_ENABLE_CUDASIM"] = str(int(simulate))
    environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # by default a process for each core
    if not simulate:
        environment["NUMBA_CACHE_DIR"] = compiled
    return environment
