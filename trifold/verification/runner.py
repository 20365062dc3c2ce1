"""Runs each cell in a worker process of its own, and decides what its rows say.

Which rows must come is known before the worker starts: the checks, and the properties that it names when it has loaded
the spec. A row that does not come has failed; a worker that ends before its last event has, too; a row that is "not
run" must have one of the reasons of :class:`~trifold.verification.outcomes.Absence`.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import IO, Any

from trifold.cpu.settings import KERNEL_SECONDS
from trifold.isolation import guard, nursery
from trifold.isolation.nursery import Forked
from trifold.verification import threads
from trifold.verification.checks import CHECKS
from trifold.verification.job import WORKER, Job
from trifold.verification.outcomes import Absence
from trifold.verification.remote_errors import cause_of_death
from trifold.verification.remote_process import START_S, kill_group
from trifold.verification.report import BUILD, INTERRUPTED, OTHER_CHECKS, Failure, Row, row_from_json
from trifold.verification.watch import Watch

_RESTARTS = 3  # so many workers of a cell may die before its other checks are given up
# The op's process has the time limit of a case; the worker, which waits for it many times in one, has more.
_PATIENCE = 4.0


class Stop:
    """Ends the cells that other threads run: each returns what its worker has told so far."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self.is_set = False

    def set(self) -> None:
        self.is_set = True
        os.write(self._write, b"!")

    def fileno(self) -> int:
        """Of what becomes readable once this is set."""
        return self._read

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        os.close(self._read)


class _Stopped(Exception):
    def __init__(self, told: _Progress) -> None:
        self.told = told


@dataclass
class _Progress:
    """What a worker has told so far."""

    check: str = ""
    sample: str = ""
    properties: tuple[str, ...] = ()
    done: str = ""
    ops: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    heard: float = field(default_factory=time.monotonic)

    @property
    def builds(self) -> bool:
        """Whether the worker starts or builds."""
        return self.check in ("", BUILD)

    def take(self, event: dict[str, Any]) -> None:
        self.heard = time.monotonic()
        match event["event"]:
            case "plan":
                self.properties = tuple(event["properties"])
            case "op":
                self.ops.append(event["pid"])
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
        watch: is told of each check that begins or ends.
        stop: ends the run, from another thread: the rows are those that there are until then.
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
            told, death = _run_worker(job, environment, watch, stop)
        except _Stopped as stopped:
            names = (stopped.told.check or BUILD, OTHER_CHECKS)
            left = (Row(name, cell.implementation, cell.device, "not run", reason=INTERRUPTED) for name in names)
            return [*rows, *stopped.told.rows, *left]
        rows += [_accepted(row) for row in told.rows]
        if death is None:
            return [*rows, *_missing(job, told, rows)]
        check = told.check or BUILD
        if not any(row.check == check and row.outcome == "failed" for row in rows):
            rows = [row for row in rows if row.check != check]
            rows.append(_failed(job, check, Failure(f"{death} during {check}", told.sample, seed=job.seed)))
        died += 1
        job = replace(job, skip=tuple(sorted({row.check for row in rows})))
        if check == BUILD or died >= _RESTARTS:
            reason = f"given up after the process died in: {', '.join(r.check for r in rows if r.failures)}"
            rows.append(Row(OTHER_CHECKS, cell.implementation, cell.device, "not run", reason=reason))
            return rows


def _accepted(row: Row) -> Row:
    """The row; failed where it was not run for a reason that is not the harness's own."""
    if row.outcome != "not run" or row.check == OTHER_CHECKS or row.reason.startswith(tuple(Absence)):
        return row
    return replace(row, outcome="failed", failures=(Failure(f"it was not run, and may not be left out: {row.reason}"),))


def _missing(job: Job, told: _Progress, rows: Iterable[Row]) -> list[Row]:
    """A failed row for each that should have come and did not; none where the build failed, which has said so."""
    came = {row.check: row.outcome for row in rows}
    if came.get(BUILD) == "failed" or OTHER_CHECKS in came:
        return []
    failure = Failure(f"this row did not come: the worker ended during {told.check or 'its start'}", seed=job.seed)
    return [_failed(job, name, failure) for name in asked_checks(job, told.properties) if name not in came]


def asked_checks(job: Job, properties: Iterable[str] = ()) -> list[str]:
    """The rows that a job is to have: of all checks of its device, and the given properties, those that it asks for."""
    possible = [BUILD, *(check.name for check in CHECKS if job.cell.device in check.devices), *properties]
    return [name for name in possible if not job.checks or name in job.checks]


def _failed(job: Job, check: str, failure: Failure) -> Row:
    return Row(check, job.cell.implementation, job.cell.device, "failed", failures=(failure,))


def _run_worker(job: Job, environment: dict[str, str], watch: Watch, stop: Stop | None) -> tuple[_Progress, str | None]:
    """What the worker told, and how it died where it did not end by itself.

    Raises:
        _Stopped: ``stop`` was set before the worker's end.
    """
    told = _Progress()
    with tempfile.TemporaryFile() as output:
        read, write = os.pipe()
        with open(read, "rb", buffering=0) as events:
            process = _start(job, environment, write, output.fileno())
            os.close(write)
            try:
                silent = _listen(events, told, job.timeout, lambda event: _pass_on(job, event, told, watch), stop)
            except BaseException:  # Ctrl-C: leave no worker running
                _end(process, told)
                raise
            if silent is not None:
                _end(process, told)
                return told, f"no answer for {silent:g} s: it hangs, or is too slow for --timeout {job.timeout:g}"
            status = process.wait()
        if status == 0 and told.done == job.nonce:
            return told, None
        _end(process, told)
        return told, cause_of_death(status, output, 0).replace("the process", "the worker")


def _start(job: Job, environment: dict[str, str], events: int, output: int) -> subprocess.Popen[bytes] | Forked:
    """A worker that leads a group of processes: forked where a nursery is open and can serve, else a fresh process."""
    if job.coverage is None:
        of_op = guard.preload_environment() if job.cell.device == "cpu" else {}
        forked = nursery.start(WORKER, job.to_json(), environment | of_op, events, output)
        if forked is not None:
            return forked
    process = subprocess.Popen(
        [sys.executable, "-m", WORKER, str(events)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=(events,),
        env=environment,
        start_new_session=True,  # so that a hung worker goes with its compilers
    )
    assert process.stdin is not None
    process.stdin.write(job.to_json().encode())
    process.stdin.close()
    return process


def _listen(
    events: IO[bytes], told: _Progress, timeout: float, pass_on: Callable[[dict[str, Any]], None], stop: Stop | None
) -> float | None:
    """Take events until the worker closes its end (None), or is silent for too long (that many seconds)."""
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(events, selectors.EVENT_READ)
        if stop is not None:
            selector.register(stop, selectors.EVENT_READ)
        while True:
            limit = max(_PATIENCE * timeout, START_S) if told.builds else _PATIENCE * timeout + 60.0
            ready = [key.fileobj for key, _ in selector.select(max(0.0, told.heard + limit - time.monotonic()))]
            if not ready:
                return limit
            if events in ready:  # first: what was told before the stop counts
                chunk = events.read(1 << 16)
                if not chunk:
                    return None
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    told.take(event)
                    pass_on(event)
            if stop in ready:
                raise _Stopped(told)


def _pass_on(job: Job, event: dict[str, Any], told: _Progress, watch: Watch) -> None:
    match event["event"]:
        case "plan":
            watch.planned(job.cell, asked_checks(job, told.properties))
        case "check":
            watch.began(job.cell, told.check)
        case "row":
            watch.ended(job.cell, told.rows[-1])


def _end(process: subprocess.Popen[bytes] | Forked, told: _Progress) -> None:
    """End a worker and its op's process, whatever state they are in."""
    kill_group(process.pid)
    for op in told.ops[-1:]:
        kill_group(op)
    process.wait()


def _environment(job: Job, timeout: float, compiled: str) -> dict[str, str]:
    """Of a cell's worker; its processes keep in the folder ``compiled`` what Numba compiles for a GPU."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | threads.OF_A_WORKER
    # An endless kernel is to say so itself, in good time, with its name and its thread.
    environment.setdefault(KERNEL_SECONDS, f"{timeout / 2:g}")
    if job.cell.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    simulate = job.cell != replace(job.cell, implementation="prototype", device="cuda")
    environment["NUMBA_ENABLE_CUDASIM"] = str(int(simulate))
    environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # else a process for each core
    if not simulate:
        environment["NUMBA_CACHE_DIR"] = compiled
    return environment
