"""Runs each cell in a worker process of its own; a crash or a hang there is a failed row, not the end of the run."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from trifold import guard
from trifold.verification import gcov, nursery
from trifold.verification.job import Job
from trifold.verification.nursery import Forked
from trifold.verification.report import Failure, Row, row_from_json
from trifold.verification.worker import BUILD

_RESTARTS = 3  # so many workers of a cell may die before its other checks are given up
_START_S = 600.0  # to start a worker and to build: neither is a case, and a busy machine takes its time

Progress = Callable[[Job, str], None]

INTERRUPTED = "interrupted"  # the reason of a row that was not run, as whoever started the run has ended it


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
    code: str = ""
    element_bytes: int = 0
    rows: list[Row] = field(default_factory=list)
    heard: float = field(default_factory=time.monotonic)

    @property
    def builds(self) -> bool:
        """Whether the worker starts or builds."""
        return self.check in ("", BUILD)

    def take(self, event: dict[str, Any]) -> None:
        self.heard = time.monotonic()
        match event["event"]:
            case "check":
                self.check, self.sample, self.code, self.element_bytes = event["name"], "", "", 0
            case "case":
                self.sample, self.code, self.element_bytes = event["sample"], event["code"], event["element_bytes"]
            case "row":
                self.rows.append(row_from_json(event["row"]))


def run_cell(
    job: Job, *, timeout: float, tell: Progress = lambda job, text: None, stop: Stop | None = None
) -> list[Row]:
    """All rows of a cell.

    Args:
        job: what to run.
        timeout: seconds that one case may take.
        tell: is told the name of each check that begins.
        stop: ends the run, from another thread: the rows are those that there are until then.
    """
    rows: list[Row] = []
    while True:
        try:
            told, death = _run_worker(job, timeout, tell, stop)
        except _Stopped as stopped:
            names = (stopped.told.check or BUILD, "other checks")
            cell = job.cell
            left = (Row(name, cell.implementation, cell.device, "not run", reason=INTERRUPTED) for name in names)
            return [*rows, *stopped.told.rows, *left]
        rows += told.rows
        if death is None:
            return rows
        check = told.check or BUILD
        failure = Failure(death, told.sample, told.code, job.seed)
        cell = job.cell
        rows.append(Row(check, cell.implementation, cell.device, "failed", failures=(failure,)))
        done = {row.check for row in rows}
        job = replace(job, skip=tuple(sorted(done)))
        if check == BUILD or sum(1 for row in rows if row.failures and row.failures[0].message == death) >= _RESTARTS:
            reason = f"given up after the process died in: {', '.join(r.check for r in rows if r.failures)}"
            rows.append(Row("other checks", cell.implementation, cell.device, "not run", reason=reason))
            return rows


def _run_worker(job: Job, timeout: float, tell: Progress, stop: Stop | None) -> tuple[_Progress, str | None]:
    """What the worker told, and how it died where it did not end by itself.

    Raises:
        _Stopped: ``stop`` was set before the worker's end.
    """
    told = _Progress()
    with tempfile.TemporaryFile() as output:
        read, write = os.pipe()
        with open(read, "rb", buffering=0) as events:
            process = _start(job, _environment(job, timeout), write, output.fileno())
            os.close(write)
            try:
                silent = _listen(events, told, timeout, lambda: tell(job, told.check), stop)
            except BaseException:  # Ctrl-C: leave no worker behind
                _kill(process)
                raise
            if silent is not None:
                _kill(process)
                return told, f"no answer for {silent:g} s: the kernel hangs, or is too slow for --timeout {timeout:g}"
            status = process.wait()
        return told, None if status == 0 else _cause_of_death(status, output, told.element_bytes)


def _start(job: Job, environment: dict[str, str], events: int, output: int) -> subprocess.Popen[bytes] | Forked:
    """A worker that leads a group of processes: forked where a nursery is open and can serve, else a fresh process."""
    if job.cell.device == "cpu" and job.coverage is None:
        forked = nursery.start(job.to_json(), environment, events, output)
        if forked is not None:
            return forked
    process = subprocess.Popen(
        [sys.executable, "-m", "trifold.verification.worker", str(events)],
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
    events: IO[bytes], told: _Progress, timeout: float, tell: Callable[[], None], stop: Stop | None
) -> float | None:
    """Take events until the worker closes its end (None), or is silent for too long (that many seconds)."""
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(events, selectors.EVENT_READ)
        if stop is not None:
            selector.register(stop, selectors.EVENT_READ)
        while True:
            limit = max(timeout, _START_S) if told.builds else timeout
            ready = [key.fileobj for key, _ in selector.select(max(0.0, told.heard + limit - time.monotonic()))]
            if not ready:
                return limit
            if events in ready:  # first: what was told before the stop counts
                chunk = events.read(1 << 16)
                if not chunk:
                    return None
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                before = told.check
                for line in lines:
                    told.take(json.loads(line))
                if told.check != before:
                    tell()
            if stop in ready:
                raise _Stopped(told)


def _kill(process: subprocess.Popen[bytes] | Forked) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(job: Job, timeout: float) -> dict[str, str]:
    # Two threads reach what runs in parallel. More, or waiting in a loop, would take the cores from the other workers:
    # six times the time was measured, on two cores.
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
    if job.cell.device == "cpu":
        environment |= guard.preload_environment()
    # An endless kernel is to say so itself, in good time, with its name and its thread.
    environment.setdefault("TRIFOLD_KERNEL_SECONDS", f"{timeout / 2:g}")
    if job.coverage is not None and job.cell.implementation == "port":
        environment |= gcov.environment(Path(job.coverage))
    simulate = job.cell != replace(job.cell, implementation="prototype", device="cuda")
    environment["NUMBA_ENABLE_CUDASIM"] = str(int(simulate))
    return environment


def _cause_of_death(status: int, output: IO[bytes], element_bytes: int) -> str:
    output.seek(0)
    printed = output.read().decode(errors="replace")
    accesses = [line for line in printed.splitlines() if line.startswith("trifold guard: ")]
    if accesses:
        fault = guard.Fault.parse(accesses[0]) if element_bytes else None
        words = fault.in_elements(element_bytes) if fault else accesses[0].removeprefix("trifold guard: ")
        return f"{words}; the process died of it"
    if status < 0:
        cause = f"the process died of {signal.Signals(-status).name}"
    else:
        cause = f"the process ended with status {status}"
    tail = [line for line in printed.splitlines() if line.strip() and not line.startswith("  File")][-3:]
    return f"{cause}{': ' + ' / '.join(tail) if tail and status > 0 else ''}"
