"""Runs a suite's tests in worker processes; a crash or a hang costs the test in which it happens, and no other."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.numba_suite.outcomes import Outcome, Outcomes
from tests.numba_suite.suites import Simulator, Suite, SuiteError

Piece = tuple[str, list[str]]  # a module, and tests of it

START_LIMIT = 120.0  # seconds for a worker's start, imports included
TAIL = 3000  # characters of a dead worker's standard error that are kept


class WorkerDied(Exception):
    """A worker ended, or was ended because it took too long; ``kind`` and ``reason`` are the outcome's."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


class Worker:
    """One worker process, and the lines exchanged with it."""

    def __init__(self, suite: Suite, simulator: Simulator, seed: int = 0, compiled: bool = False) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._process = subprocess.Popen(
            suite.command(simulator),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=suite.environment(simulator, seed, compiled),
            start_new_session=True,  # so that what a test started ends with it
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._work, self._answers = self._process.stdin, self._process.stdout
        self._unread = b""
        self.launches = 0  # so far

    def send(self, piece: Piece | None) -> None:
        with contextlib.suppress(BrokenPipeError):  # the next awaited line says how it died
            self._work.write(json.dumps(piece).encode() + b"\n")
            self._work.flush()

    def event(self, limit: float) -> dict[str, Any]:
        """The next line; raises WorkerDied where there is none within ``limit`` seconds."""
        deadline = time.monotonic() + limit
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.stop()
                raise WorkerDied("timed out", f"no end within {limit:.0f} s\n{self._tail()}")
            read = os.read(self._answers.fileno(), 1 << 16)
            if not read:
                status = self._process.wait()
                self.stop()
                ended = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
                raise WorkerDied("crashed", f"{ended}\n{self._tail()}")
            self._unread += read
        line, self._unread = self._unread.split(b"\n", 1)
        event: dict[str, Any] = json.loads(line)
        return event

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _tail(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - TAIL))
        return self._log.read().decode(errors="replace")


def list_tests(suite: Suite, simulator: Simulator) -> tuple[list[Piece], Outcomes]:
    """The tests of each module, and the outcomes of modules that do not run at all."""
    worker = Worker(suite, simulator)
    worker.send(None)
    pieces: list[Piece] = []
    outcomes: Outcomes = {}
    try:
        while (event := worker.event(START_LIMIT))["event"] != "done":
            if event["event"] == "module":
                pieces.append((event["module"], event["tests"]))
            else:
                outcomes[event["test"]] = Outcome(event["kind"], event["seconds"], event["reason"])
    except WorkerDied as died:
        raise SuiteError(f"{suite.name}'s tests cannot be listed: {died.reason}", "read the output above") from None
    finally:
        worker.stop()
    return pieces, outcomes


class Pool:
    """Runs pieces of work, lists of tests, in ``jobs`` workers at a time."""

    def __init__(
        self,
        start: Callable[[], Worker],
        jobs: int,
        limit: float,
        on_end: Callable[[str, Outcome], None],
    ) -> None:
        self._start, self._jobs, self._limit, self._on_end = start, jobs, limit, on_end
        self._lock = threading.Lock()
        self.outcomes: Outcomes = {}
        self.launches = 0  # that trifold's simulator has run

    def run(self, pieces: Iterable[Piece]) -> Outcomes:
        """Every test of every piece has an outcome afterwards. Large pieces are first, so that workers end together."""
        left = deque(sorted(pieces, key=lambda piece: len(piece[1]), reverse=True))
        threads = [threading.Thread(target=self._serve, args=(left,), daemon=True) for _ in range(self._jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.outcomes

    def _serve(self, left: deque[Piece]) -> None:
        worker: Worker | None = None
        while True:
            with self._lock:
                if not left:
                    break
                module, names = left.popleft()
            while names:
                worker = worker or self._start()
                worker.send((module, names))
                try:
                    self._read_piece(worker, names)
                    names = []
                except WorkerDied:
                    worker = None
                    names = [name for name in names if name not in self.outcomes]
        if worker is not None:
            worker.stop()

    def _read_piece(self, worker: Worker, names: Sequence[str]) -> None:
        """Reads one piece's events; raises WorkerDied, with the outcome of the test at fault already noted."""
        running: str | None = None
        before = worker.launches
        rest = Outcome("not run", 0.0, "the worker did not report it")
        try:
            while (event := worker.event(self._limit if running else START_LIMIT))["event"] != "done":
                if event["event"] == "start":
                    running = event["test"]
                elif event["event"] == "unstarted":
                    rest = Outcome(event["kind"], 0.0, event["reason"])
                else:
                    running = None
                    self._end(event["test"], Outcome(event["kind"], event["seconds"], event["reason"]))
        except WorkerDied as died:
            at_fault = running or next(name for name in names if name not in self.outcomes)
            self._end(at_fault, Outcome(died.kind, 0.0, died.reason))
            raise
        worker.launches = event["launches"]
        with self._lock:
            self.launches += worker.launches - before
        for name in names:
            if name not in self.outcomes:
                self._end(name, rest)

    def _end(self, name: str, outcome: Outcome) -> None:
        with self._lock:
            self.outcomes[name] = outcome
        self._on_end(name, outcome)
