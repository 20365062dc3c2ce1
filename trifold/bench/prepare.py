"""Makes first calls in several processes at once, before anything is timed, so that their compiled code is cached.

Ports, the copy kernel and CUB's functions are cached by trifold, torch.compile's results by Inductor, Triton kernels by
Triton, and QuACK's by QuACK. Those of Liger written in NVIDIA's CUTLASS DSL are not cached: the timing process compiles
them itself. So it does if a first call failed here, hung, or ended its process; but a call that left the GPU unusable
is not repeated, since that would end the run.

Measured on two cores with torch 2.13: torch.compile takes 0.92 s for a layer_norm on CPU tensors, forward and backward,
and 0.03 s if its results are cached.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from trifold import own_process
from trifold.bench.peers import PACKAGES, has
from trifold.bench.rows import CUB, PORT, RIVALS, ROOFLINE
from trifold.bench.run import HOST_PASSES, Task
from trifold.build.cache import builds_folder, require_private
from trifold.cells import Device
from trifold.workspace import Workspace

START_S = 120.0  # while all processes import: many at once read torch from a cold disk
CALL_S = 240.0  # for a first call: nvcc takes longest, on a machine whose cores all compile

_COMPILED = ("compile", *PACKAGES)  # rivals that compile in their first call and cache the result


@dataclass(frozen=True)
class FirstCall:
    """The first call of one competitor in one pass of one case, which compiles; by name.

    Attributes:
        op, benchmark, dtype, method, case: the key of a task.
        sizes: of the case, which need not be listed in a spec.
        competitor: a rival from ``compile``, ``liger``, ``quack`` and ``cub``; ``port``; or ``roofline``.
    """

    op: str
    benchmark: str
    dtype: str
    method: str
    case: str
    sizes: tuple[int, ...]
    competitor: str

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """As :attr:`trifold.bench.run.Task.key`."""
        return self.op, self.benchmark, self.dtype, self.method, self.case

    @property
    def label(self) -> str:
        return f"{self.op} {self.benchmark} {self.dtype} {self.method} {self.case}: {self.competitor}"


@dataclass(frozen=True)
class Failed:
    """A first call that was not made, and why.

    Attributes:
        fatal: it left the GPU unusable for its process.
    """

    call: FirstCall
    reason: str
    fatal: bool = False


@dataclass(frozen=True)
class Prepared:
    """The result of the first calls: how many were made, and why the others were not."""

    made: int
    failed: tuple[Failed, ...]
    workers: int
    seconds: float

    @property
    def fatal(self) -> dict[tuple[str, ...], str]:
        """Why not to repeat them, by the key of the task and the competitor's name in the rows."""
        return {
            (*one.call.key, RIVALS.get(one.call.competitor, one.call.competitor)): one.reason
            for one in self.failed
            if one.fatal
        }

    @property
    def text(self) -> str:
        calls = f"{self.made} of {self.made + len(self.failed)} first calls"
        lines = [f"Prepared {calls} in {self.workers} processes, {self.seconds:.1f} s"]
        lines += [f"  not prepared: {one.call.label}: {one.reason}" for one in self.failed]
        return "\n".join(lines)


def first_calls(planned: Sequence[Task], against: Collection[str], device: Device) -> list[FirstCall]:
    """The first calls that the tasks ``planned`` need, each once, slowest first."""
    builds = {task.op: _first_call(task, PORT) for task in reversed(planned)}
    copies = [task for task in planned if task.method not in HOST_PASSES and task.benchmark.roofline == "copy"]
    own = [_first_call(task, ROOFLINE) for task in copies[:1] if device == "cuda"]
    functions: dict[str, FirstCall] = {}
    for task in sorted(planned, key=lambda task: task.benchmark.bytes(task.case, task.dtype)):
        stated = task.benchmark.cub
        if CUB in against and stated is not None and not task.without_libraries:
            # The smallest case, since its results are compared too.
            functions.setdefault(stated.function, _first_call(task, CUB))
    calls: dict[tuple[object, ...], FirstCall] = {}
    for name in (name for name in _COMPILED if name in against):
        for task in planned:
            if name not in PACKAGES or _in_library(task, name):
                calls.setdefault((task.op, task.dtype, task.case, task.which, name), _first_call(task, name))
    return [*builds.values(), *functions.values(), *own, *calls.values()]


def _in_library(task: Task, package: str) -> bool:
    peers = task.benchmark.peers
    return not task.without_libraries and peers is not None and has(package, peers)


def _first_call(task: Task, competitor: str) -> FirstCall:
    return FirstCall(*task.key, task.case.sizes, competitor)


def compile_here() -> None:
    """Make Inductor compile in this process, and Triton cache its kernels where other processes look, unless
    configured.

    Inductor's own processes would start with the first function that it compiles or loads, and so while the first case
    is timed. Inductor also tells Triton where to cache kernels, but only from its first kernel on.

    Raises:
        BuildError: trifold's cache cannot be written, or others can write to it.
    """
    from torch._inductor import config

    settings: Any = config
    settings.compile_threads = 1
    if "TRITON_CACHE_DIR" not in os.environ:
        folder = builds_folder().parent / "triton"
        folder.mkdir(mode=0o700, exist_ok=True)
        require_private(folder)
        os.environ["TRITON_CACHE_DIR"] = str(folder)


def prepare(
    calls: Sequence[FirstCall],
    workspace: Workspace,
    device: Device,
    workers: int,
    *,
    program: Sequence[str] = tuple(own_process.command("trifold.bench.prepare_worker")),
    start_s: float = START_S,
    call_s: float = CALL_S,
    on_finished: Callable[[FirstCall], None] = lambda call: None,
) -> Prepared:
    """Make ``calls`` in ``workers`` processes, which have all ended on return.

    Args:
        calls: what to make.
        workspace: the workspace of the ops.
        device: of the tensors.
        workers: how many processes at a time.
        program: the command of a process, see :mod:`trifold.bench.prepare_worker`.
        start_s: seconds after which a process that is not ready is given up.
        call_s: seconds after which an unfinished call is given up, with its process.
        on_finished: called with each finished call.
    """
    compile_here()
    started = time.monotonic()
    size = min(workers, len(calls))
    pool = _Pool((*program, str(workspace.root), device), size, start_s, call_s)
    outcomes = {call: Failed(call, "no process was left to make it") for call in calls}
    try:
        for outcome in pool.outcomes(calls):
            outcomes[outcome.call] = outcome
            on_finished(outcome.call)
    finally:
        pool.close()
    failed = tuple(outcome for outcome in outcomes.values() if outcome.reason)
    return Prepared(len(outcomes) - len(failed), failed, size, time.monotonic() - started)


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    deadline: float
    call: FirstCall | None = None
    ready: bool = False

    def end(self) -> int:
        """Kill it and the compilers that it started, unless it has ended; return how it ended."""
        self.connection.close()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


@dataclass
class _Pool:
    """Processes that make calls; one that ends, or is given up, is replaced if it was ever ready."""

    command: Sequence[str]
    size: int
    start_s: float
    call_s: float
    workers: list[_Worker] = field(default_factory=list)

    def outcomes(self, calls: Iterable[FirstCall]) -> Iterator[Failed]:
        """Each finished call; one that succeeded has no reason."""
        waiting = deque(calls)
        for _ in range(self.size):
            self._start()
        while self.workers and (waiting or any(worker.call for worker in self.workers)):
            said = wait([worker.connection for worker in self.workers], self._patience())
            for worker in list(self.workers):
                if worker.connection in said:
                    yield from self._heard(worker, waiting)
                elif time.monotonic() > worker.deadline:
                    yield from self._lost(worker, waiting, f"it took longer than {self.call_s:g} s")

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        self.workers.clear()

    def _start(self) -> None:
        ours, theirs = Pipe()
        with theirs:
            process = subprocess.Popen(
                [*self.command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the libraries repeat their output when they are timed
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for this process only; and a process ends with its compilers
            )
        self.workers.append(_Worker(process, ours, time.monotonic() + self.start_s))

    def _patience(self) -> float:
        return max(0.0, min(worker.deadline for worker in self.workers) - time.monotonic()) + 0.01

    def _heard(self, worker: _Worker, waiting: deque[FirstCall]) -> Iterator[Failed]:
        try:
            reason, fatal = worker.connection.recv()
        except (EOFError, OSError):
            yield from self._lost(worker, waiting, "")
            return
        worker.ready = True
        if worker.call is not None:
            yield Failed(worker.call, reason, fatal)
        worker.call = None
        if fatal or not waiting:
            yield from self._lost(worker, waiting, "")
            return
        worker.call, worker.deadline = waiting.popleft(), time.monotonic() + self.call_s
        with suppress(OSError):  # it has ended, which is reported next
            worker.connection.send(astuple(worker.call))

    def _lost(self, worker: _Worker, waiting: deque[FirstCall], reason: str) -> Iterator[Failed]:
        status = self._end(worker)
        if worker.call is not None:
            yield Failed(worker.call, reason or f"its process ended with {status}")
        if waiting and worker.ready:
            self._start()

    def _end(self, worker: _Worker) -> int:
        self.workers.remove(worker)
        return worker.end()
