"""The judge of one cell: ``python -m trifold.verification.worker``.

It reads a job from standard input and writes events, one JSON object a line, to the file descriptor that is its only
argument: ``plan`` (the properties that will have rows), ``op`` (a process of the op started), ``builder`` (one that
only builds started, or with 0: it ended), ``check`` (one begins), ``case`` (one begins), ``row`` (a check ended) and,
last, ``done``. The op runs in another process (:mod:`trifold.verification.remote`); the reference and the comparisons
are in this one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TextIO

import filelock
import torch

from trifold import own_process
from trifold.cells import CellName
from trifold.errors import TrifoldError, WorkspaceError
from trifold.isolation import guard, nursery
from trifold.isolation.device_memory import give_back_what_is_kept, gpu_is_lost, let_autograd_finish, wait_asleep
from trifold.isolation.source import REFERENCE, reference_alone
from trifold.raised_at import raised_at
from trifold.spec import Property, Spec
from trifold.spec.load import load_spec
from trifold.verification import gcov, integrity
from trifold.verification.calls import COMPILED, IN_SIMULATOR, Search
from trifold.verification.cell import Cell, Remote
from trifold.verification.checks import CHECKS, Check
from trifold.verification.examples import default_examples
from trifold.verification.job import Job
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.remote import OpProcess
from trifold.verification.remote_errors import OpDied, RaisedByOp
from trifold.verification.remote_process import Process, Start, kill_session
from trifold.verification.report import BUILD, OTHER_CHECKS, PROPERTY, Failure, OutcomeName, Row
from trifold.workspace import OpFiles, Workspace, import_file

_ANNOUNCED_S = 10.0  # seconds between reports that a property waits for others
_MEMORY_S = 60.0  # seconds to wait for memory of the GPU that other cells use
_DEATHS = 3  # deaths of the op's process after which the other checks are given up


class Events:
    """Writes events for the runner."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def plan(self, properties: list[str]) -> None:
        self._send({"event": "plan", "properties": properties})

    def op(self, pid: int) -> None:
        self._send({"event": "op", "pid": pid})

    def builder(self, pid: int) -> None:
        self._send({"event": "builder", "pid": pid})

    def check(self, name: str) -> None:
        self._send({"event": "check", "name": name})

    def case(self, sample: str) -> None:
        self._send({"event": "case", "sample": sample})

    def row(self, row: Row) -> None:
        self._send({"event": "row", "row": asdict(row)})

    def done(self, nonce: str) -> None:
        self._send({"event": "done", "nonce": nonce})

    def _send(self, event: dict[str, object]) -> None:
        self._stream.write(json.dumps(event) + "\n")
        self._stream.flush()


def run(job: Job, events: Events) -> None:
    """Run the job's checks. Each requested check sends a row, whatever happens in it."""
    files = Workspace.at(Path(job.workspace)).op(job.cell.op)
    rows = _Rows(job, events)
    events.check(BUILD)
    changed = integrity.Snapshot().changed  # bound here, so that a spec cannot replace the method
    process = OpProcess(_starter(job), job.timeout, job.cell.device, events.op)
    guarded = process
    if job.cell.device == "cuda":  # on the CPU, the op's usual process guards memory on request
        wait_asleep()
        guarded = OpProcess(_starter(job, guarded=True), job.timeout, job.cell.device, events.op)
    try:
        spec = load_spec(files)
        reference = _reference(files)
        events.plan([property_check(stated).name for stated in spec.properties if applies(stated, job.cell)])
        cell = _cell(job, files, spec, reference, process, guarded, events)
    except (Exception, OpDied) as error:
        rows.send(BUILD, "failed", failures=(Failure(_words(error)),), always=True)
        return
    rows.send(BUILD, "passed", cases=1)
    checks = _checks(job, cell.spec)
    with building_ahead(job, checks, events):
        _run_checks(checks, cell, rows, events, changed)
    process.close()


def _run_checks(
    checks: Iterable[Check], cell: Cell, rows: _Rows, events: Events, changed: Callable[[], list[str]]
) -> None:
    deaths: list[str] = []
    for check in checks:
        if cell.spec.not_on_cpu and cell.kind == "port" and cell.device == "cpu":
            rows.send(check.name, "not run", reason=f"{Absence.NOT_ON_CPU}: {cell.spec.not_on_cpu}")
            continue
        events.check(check.name)
        if not _run_check(check, cell, rows, changed):
            deaths.append(check.name)
            if len(deaths) >= _DEATHS:
                reason = f"given up after the op's process died in: {', '.join(deaths)}"
                rows.send(OTHER_CHECKS, "not run", reason=reason, always=True)
                break
        if gpu_is_lost():  # lost by the reference: the runner starts another worker for the other checks
            sys.exit("the judge's own use of the GPU has ended by a fault, of the reference or of the spec")
        give_back_what_is_kept()


@contextlib.contextmanager
def building_ahead(job: Job, checks: Iterable[Check], events: Events) -> Iterator[None]:
    """Build the forms of a port that checks use later, in another process of the op, while others run.

    A build that fails fails again in its check, which reports it.
    """
    forms = [check.form for check in checks if check.form is not None]
    if job.cell.implementation != "port" or not forms:
        yield
        return
    pids: list[int] = []

    def announced(pid: int) -> None:
        pids.append(pid)
        events.builder(pid)

    builder = OpProcess(_starter(job), job.timeout, job.cell.device, announced)

    def build() -> None:
        with contextlib.suppress(Exception, OpDied):
            for form in forms:
                builder.build(form)
        builder.close()
        events.builder(0)

    thread = threading.Thread(target=build, name="trifold-build", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if thread.is_alive():
            for pid in pids:
                kill_session(pid)
            thread.join()


class _Rows:
    """Sends the requested rows, each with the seconds since the previous one."""

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
        dtypes: tuple[str, ...] = (),
        accepted: tuple[dict[str, Any], ...] = (),
        always: bool = False,
    ) -> None:
        now = time.monotonic()
        seconds, self._started = round(now - self._started, 3), now
        if always or _wanted(self._job, check):
            cell = self._job.cell
            row = Row(
                check, cell.implementation, cell.device, outcome, cases, reason, failures, seconds, dtypes, accepted
            )
            self._events.row(row)


def _run_check(check: Check, cell: Cell, rows: _Rows, changed: Callable[[], list[str]]) -> bool:
    """Run a check and send its row; returns whether the op's process survived."""
    cell.cases, cell.current = 0, (None, "")
    cell.dtypes.clear()
    cell.accepted = ()
    try:
        remark = check.run(cell) or ""
    except NotRun as reason:
        rows.send(check.name, "not run", reason=str(reason))
    except CheckFailed as error:
        rows.send(check.name, "failed", cases=cell.cases, failures=(cell.failure(error, check.name),))
    except OpDied as error:
        rows.send(check.name, "failed", cases=cell.cases, failures=(cell.died(error, check.name),))
        return False
    except BaseException as error:  # also SystemExit: a row must be sent
        if isinstance(error, KeyboardInterrupt):
            raise
        rows.send(check.name, "failed", cases=cell.cases, failures=(cell.raised(error, check.name),))
    else:
        patched = changed()
        if patched:
            failure = Failure(f"the verification itself was changed while it ran: {', '.join(patched)}")
            rows.send(check.name, "failed", cases=cell.cases, failures=(failure,))
        elif cell.cases == 0:
            rows.send(check.name, "failed", failures=(Failure("the check ran no case, so it shows nothing"),))
        else:
            dtypes = tuple(sorted(cell.dtypes))
            rows.send(check.name, "passed", cases=cell.cases, reason=remark, dtypes=dtypes, accepted=cell.accepted)
    return True


def _wanted(job: Job, name: str) -> bool:
    return name not in job.skip and (not job.checks or name in job.checks)


def _checks(job: Job, spec: Spec) -> list[Check]:
    """The checks to run: the requested ones, and before each those whose results it uses."""
    device = job.cell.device
    possible = [check for check in CHECKS if device in check.devices]
    possible += [property_check(p) for p in spec.properties if applies(p, job.cell)]
    # Branches are counted over all other checks, so it is last.
    possible.sort(key=lambda check: check.name == "branches")
    asked = {check.name for check in possible if _wanted(job, check.name)}
    needed = {name for check in possible if check.name in asked for name in check.after}
    if "branches" in asked:
        needed |= {check.name for check in possible if check.name.startswith(PROPERTY)}
    needed -= set(job.skip)
    return [check for check in possible if check.name in asked | needed]


def _needs_build(job: Job, spec: Spec) -> bool:
    return _wanted(job, BUILD) or not all(check.own_build for check in _checks(job, spec))


def property_check(stated: Property) -> Check:
    """A property of a spec as a check."""

    def run_property(cell: Cell) -> None:
        cell.begin(None, "property")
        try:
            if stated.devices == ("cuda",):
                _run_alone_on_gpu(cell, stated)
            else:
                _run(cell, stated)
        except AssertionError as error:
            raise CheckFailed(str(error) or "the property does not hold") from error

    return Check(f"{PROPERTY}{stated.name}", run_property, stated.reason)


def _run(cell: Cell, stated: Property) -> None:
    try:
        stated.check(cell.implementation.function, cell.device)
    except NotRun as error:
        raise CheckFailed("the property raises NotRun, which only the harness may") from error


def _run_alone_on_gpu(cell: Cell, stated: Property) -> None:
    """Properties for a GPU only run one at a time, as they may need most of its memory, which is freed afterwards.

    Other checks run at the same time, and other programs may: if they take the memory in between, the property waits
    for it again, and runs once more.
    """
    needed, there = stated.gpu_memory, torch.cuda.mem_get_info()[1]
    if needed > there:
        raise NotRun(Absence.SMALL_GPU, f"{needed / 2**30:.0f} GiB are needed, and it has {there / 2**30:.0f}")
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    with _turn(cell, filelock.FileLock(Path(tempfile.gettempdir()) / f"trifold-gpu-{gpu}-{os.getuid()}.lock")):
        _await_gpu_memory(needed)
        try:
            _run_and_free(cell, stated)
        except torch.OutOfMemoryError:
            _await_gpu_memory(needed)
            _run_and_free(cell, stated)


def _turn(cell: Cell, lock: filelock.BaseFileLock) -> AbstractContextManager[Any]:
    """Wait for the lock, however long others hold it, which have limits of their own; the runner is told so, that it
    does not take this process for one that hangs."""
    while True:
        cell.announce("property, when those of other cells have ended")
        with contextlib.suppress(filelock.Timeout):
            return lock.acquire(timeout=_ANNOUNCED_S)


def _await_gpu_memory(needed: int) -> None:
    """Wait until as many bytes are free, at most ``_MEMORY_S``."""
    latest = time.monotonic() + _MEMORY_S
    while torch.cuda.mem_get_info()[0] < needed and time.monotonic() < latest:
        time.sleep(0.1)


def _run_and_free(cell: Cell, stated: Property) -> None:
    try:
        _run(cell, stated)
    except Exception as error:  # the traceback's references are not needed any more
        traceback.clear_frames(error.__traceback__)
        raise
    finally:
        let_autograd_finish()
        gc.collect()
        cell.process.settle()


def applies(stated: Property, cell: CellName) -> bool:
    return cell.device in stated.devices and cell.implementation in stated.implementations


def _reference(files: OpFiles) -> Any:
    """The op's ``reference``, from its prototype's file, of which nothing else runs in this process.

    Raises:
        WorkspaceError: there is none, or something that it needs cannot be imported.
    """
    try:
        module = import_file(files.prototype, f"trifold_reference_{files.name}", reference_alone)
    except WorkspaceError:
        raise
    except Exception as error:
        where = raised_at(files, error) or files.prototype
        raise WorkspaceError(f"{where} raises {type(error).__name__}: {error}", "correct it") from error
    function = getattr(module, REFERENCE, None)
    if function is None:
        raise WorkspaceError(
            f"{files.prototype} has no function reference", "write def reference(...) in PyTorch: it says what is right"
        )
    return function


def _cell(
    job: Job, files: OpFiles, spec: Spec, reference: Any, process: OpProcess, guarded: OpProcess, events: Events
) -> Cell:
    name = job.cell
    not_here = spec.not_on_cpu and name.implementation == "port" and name.device == "cpu"
    loaded = process.load(build=not not_here and _needs_build(job, spec))
    if job.coverage is not None and loaded["library"] is not None:
        gcov.keep_notes(Path(loaded["library"]), Path(job.coverage))
    simulated = (name.implementation, name.device) == ("prototype", "cpu")
    limits = IN_SIMULATOR if simulated else COMPILED
    examples = default_examples(f"{name.implementation} {name.device}") if job.examples is None else job.examples
    search = Search(examples, job.seed)
    operators, differentiable = tuple(loaded["operators"]), bool(loaded["differentiable"])
    implementation = Remote(name.implementation, files, process, operators, differentiable)
    return Cell(spec, implementation, name.device, reference, search, limits, events.case, guarded)


def _words(error: BaseException) -> str:
    known = isinstance(error, TrifoldError | OpDied) or type(error).__name__ in _NAMES_OF_OURS
    if known:
        return str(error)
    place = f"{error.place}: " if isinstance(error, RaisedByOp) and error.place else ""
    return f"{place}{type(error).__name__}: {error}"


_NAMES_OF_OURS = frozenset(kind.__name__ for kind in TrifoldError.__subclasses__())


# ------------------------------------------------------------------------------------------------ the op's process


def _starter(job: Job, *, guarded: bool = False) -> Start:
    """Starts the op's process: forked if a nursery serves, else a fresh one.

    Args:
        guarded: guard all of its memory on GPUs.
    """
    cell = job.cell
    setup = {
        "workspace": job.workspace,
        "op": cell.op,
        "implementation": cell.implementation,
        "device": cell.device,
        "coverage": job.coverage,
        "guarded": guarded,
    }

    def start(
        connection: int,
        incoming: int,
        outgoing: int,
        output: IO[bytes],
        *,
        under: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Process:
        if not under and not environment:
            of_op = _environment_of_op(job, guarded)
            forked = nursery.start_op(setup, of_op, connection, incoming, outgoing, output.fileno())
            if forked is not None:
                return forked
        request = {**setup, "connection": connection, "incoming": incoming, "outgoing": outgoing}
        return subprocess.Popen(
            [*under, *own_process.command("trifold.isolation.server", json.dumps(request))],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(connection, incoming, outgoing),
            env={**_environment_of_op(job, guarded), **environment},
            start_new_session=True,  # so that a hung op can be killed together with its compilers
        )

    return start


def _environment_of_op(job: Job, guarded: bool) -> dict[str, str]:
    environment = dict(os.environ)
    if guarded:
        environment["CUDA_LAUNCH_BLOCKING"] = "1"  # so that the launch of a kernel that faults raises, not a later call
    if job.cell.device == "cpu":
        environment |= guard.preload_environment()
    if job.coverage is not None and job.cell.implementation == "port":
        environment |= gcov.environment(Path(job.coverage))
    return environment


def work(request: str, events: int) -> None:
    """Run a job, given as JSON; ``events`` is the file descriptor to write to, and is closed."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    job = Job.from_json(request)
    with open(events, "w", encoding="utf-8") as stream:
        reported = Events(stream)
        run(job, reported)
        reported.done(job.nonce)


if __name__ == "__main__":
    own_process.import_from_here()
    work(sys.stdin.read(), int(sys.argv[1]))
