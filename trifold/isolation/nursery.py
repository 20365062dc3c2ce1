"""Workers and ops' processes that start at once: a process that has imported all that they need forks each of them.

Most of what a worker of a small op does is to import torch, Numba and what opcheck and torch.compile need: 3 s of
processor time, spent once for all cells of a run::

    with nursery.opened():
        verify(...)  # and another one

There are two such processes. The first has imported what runs an op and forks ops' processes; the second is forked from
it, has imported the verification as well, and forks workers. So no op finds the verification in its own process.

There are two for each set of variables that Python's packages read when they are imported: for the CPU, where no GPU is
to be seen, and for prototypes and for ports on a GPU. A process that was forked cannot use CUDA if its parent did. So
those for a GPU tell torch to look for one by its management library, and try whether a process that they fork can use
it. Where they cannot serve, a worker is a fresh process, as without them.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NoReturn

from trifold.build import script
from trifold.cells import CellName

# Read when they are needed, and not by a process that starts: a worker has its own.
_READ_LATE = frozenset(
    {
        "CUDA_LAUNCH_BLOCKING",
        "CXX",
        "NUMBA_CACHE_DIR",
        "PYTEST_CURRENT_TEST",
        "TRIFOLD_CACHE_DIR",
        "TRIFOLD_KERNEL_SECONDS",
    }
)
# What tells one kind of worker from another.
_KINDS = ("CUDA_VISIBLE_DEVICES", "NUMBA_ENABLE_CUDASIM")
# What runs an op, in the course of all checks.
_OF_OPS = (
    "trifold.isolation.server",
    "numba.cuda",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._export",
    "torch.testing",
    "torch.utils.cpp_extension",
)
# Has torch.cuda.is_available() ask the management library, which leaves a process as it was: CUDA itself does not.
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Forked:
    """A worker that was forked.

    Attributes:
        pid: of the worker, which leads a group of its own.
        status: tells how it ended.
        ended: what it told.
    """

    pid: int
    status: IO[bytes]
    ended: list[int] = field(default_factory=list)

    def wait(self) -> int:
        """How it ended, as ``subprocess.Popen.wait`` says it; also the second time."""
        if not self.status.closed:
            with self.status:
                told = self.status.readline()
            self.ended.append(int(told) if told else -signal.SIGKILL)  # whoever waited for it was killed, too
        return self.ended[0]


class Nursery:
    """The process that forks workers. It starts when it is first needed, and ends when this process does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._environment: dict[str, str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, worker: str, job: str, environment: Mapping[str, str], events: int, output: int) -> Forked | None:
        """A worker that was told ``job``; None where it must be a fresh process.

        Args:
            worker: the module whose ``work(job, events)`` it calls; the same for all workers.
            job: as JSON.
            environment: of the worker.
            events: the file descriptor that it writes events to.
            output: the file descriptor for what the op prints.
        """
        with self._lock:
            if self._process is None:
                self._open(worker, environment)
        if _early(environment) != self._environment:
            return None
        with self._lock:
            return _ask(self._socket, {"job": job, "environment": _late(environment)}, [events, output])

    def _open(self, worker: str, environment: Mapping[str, str]) -> None:
        self._environment = _early(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trifold.isolation.nursery", str(theirs.fileno()), worker],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={_ASK_NVML: "1", **environment},
                start_new_session=True,  # Ctrl-C is for this process, which ends the workers itself
            )

    def close(self) -> None:
        if self._process is not None:
            self._socket.close()
            self._process.wait()


class Nurseries:
    """A :class:`Nursery` for each kind of worker, of which the first one of that kind sets the environment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_kind: dict[tuple[str | None, ...], Nursery] = {}

    def start(self, worker: str, job: str, environment: Mapping[str, str], events: int, output: int) -> Forked | None:
        """:meth:`Nursery.start` of the kind's own."""
        with self._lock:
            kind = tuple(environment.get(name) for name in _KINDS)
            nursery = self._of_kind.setdefault(kind, Nursery())
        return nursery.start(worker, job, environment, events, output)

    def close(self) -> None:
        for nursery in self._of_kind.values():
            nursery.close()


_open: list[Nurseries] = []


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Workers that start within are forked."""
    if _open:  # by whoever runs this
        yield
        return
    _open.append(Nurseries())
    try:
        yield
    finally:
        _open.pop().close()


def opened_for(cells: Iterable[CellName]) -> contextlib.AbstractContextManager[None]:
    """:func:`opened` where it is worth its time: for two cells of one kind, as on the CPU, and for more of any."""
    devices = [cell.device for cell in cells]
    return opened() if len(devices) > 2 or devices == ["cpu", "cpu"] else contextlib.nullcontext()


def start(worker: str, job: str, environment: Mapping[str, str], events: int, output: int) -> Forked | None:
    """:meth:`Nurseries.start` of those that are open; None where none are."""
    return _open[0].start(worker, job, environment, events, output) if _open else None


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _READ_LATE}


def _late(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in _READ_LATE}


def _ask(requests: socket.socket, request: dict[str, Any], descriptors: Sequence[int]) -> Forked | None:
    """A process for a request; None where nobody serves. The last descriptor is where it prints."""
    read, write = os.pipe()
    status = open(read, "rb", buffering=0)  # noqa: SIM115 -- Forked.wait closes it
    try:
        socket.send_fds(requests, [json.dumps({**request, "folder": os.getcwd()}).encode()], [*descriptors, write])
    except OSError:  # it was killed
        status.close()
        return None
    finally:
        os.close(write)
    pid = status.readline()
    if pid:
        return Forked(int(pid), status)
    status.close()
    return None


# ------------------------------------------------------------------------------------------------------- in a worker

_ops: list[socket.socket] = []  # where a worker asks for its op's process


def start_op(
    setup: dict[str, Any], environment: Mapping[str, str], connection: int, incoming: int, outgoing: int, output: int
) -> Forked | None:
    """The process of an op, forked; None where it must be a fresh one.

    Args:
        setup: of :class:`trifold.isolation.server.Setup`, but for its descriptors.
        environment: of the process.
        connection, incoming, outgoing, output: file descriptors.
    """
    if not _ops:
        return None
    request = {"setup": setup, "environment": _late(environment)}
    return _ask(_ops[0], request, [connection, incoming, outgoing, output])


# ---------------------------------------------------------------------------------------- in the processes that fork


def _serve(requests: socket.socket, work: Callable[[dict[str, Any], Sequence[int]], None]) -> None:
    gc.freeze()  # what is never collected is never copied
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 8)
        if not request:
            break
        if os.fork() == 0:
            requests.close()
            _wait_for_worker(json.loads(request), descriptors, work)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap(os.WNOHANG)
    requests.close()
    _reap(0)


def _reap(options: int) -> None:
    """Take note of children that have ended: those that wait for a worker."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options) != (0, 0):
            pass


def _wait_for_worker(
    request: dict[str, Any], descriptors: Sequence[int], work: Callable[[dict[str, Any], Sequence[int]], None]
) -> None:
    *given, status = descriptors
    pid = os.fork()
    if pid == 0:
        _work(request, given, status, work)
    for ops in _ops:
        ops.close()
    for descriptor in given:
        os.close(descriptor)
    _, ended = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)


def _work(
    request: dict[str, Any],
    descriptors: Sequence[int],
    status: int,
    work: Callable[[dict[str, Any], Sequence[int]], None],
) -> NoReturn:
    os.setsid()  # so that a hung worker goes with its compilers
    os.write(status, f"{os.getpid()}\n".encode())
    os.close(status)
    *given, output = descriptors
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)

    def all_of_it() -> int:
        os.chdir(str(request["folder"]))
        sys.path[0] = str(request["folder"])
        for name in _READ_LATE:
            os.environ.pop(name, None)
        os.environ.update(request["environment"])
        if "numba.core.config" in sys.modules:
            sys.modules["numba.core.config"].reload_config()
        if not _of_gpu():
            script.fork_from_now_on()
        work(request, given)
        return 0

    script.end_with(all_of_it)


def _be_worker(worker: str, request: dict[str, Any], descriptors: Sequence[int]) -> None:
    importlib.import_module(worker).work(str(request["job"]), *descriptors)


def _be_op(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    from trifold.isolation import server

    connection, incoming, outgoing = descriptors
    server.work(server.Setup(**request["setup"], connection=connection, incoming=incoming, outgoing=outgoing))


def _import(names: Iterable[str]) -> None:
    """Without collection of garbage, which is a quarter of the time: what modules make stays."""
    gc.disable()
    for name in names:
        with contextlib.suppress(ImportError):  # the worker says what it lacks
            importlib.import_module(name)
    gc.enable()


@functools.cache
def _of_gpu() -> bool:
    """Whether what is forked here may use a GPU: for the processes that fork, and what they fork knows it from them."""
    import torch

    return os.environ.get("CUDA_VISIBLE_DEVICES") != "" and torch.cuda.is_available()


def _require_usable_gpu() -> None:
    """End this process where one that it forks cannot use the GPU, since something here did."""
    if not _of_gpu():
        return
    import torch

    pid = os.fork()
    if pid == 0:
        script.end_with(lambda: torch.cuda.init() or 0)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        os._exit(1)


def _serve_both(workers: socket.socket, worker: str) -> None:
    _import(_OF_OPS)
    _require_usable_gpu()
    os.environ.pop("LD_PRELOAD", None)  # the guard is for ops, not for the compilers that they start
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # where no op can be forked, no worker is
        ours.close()
        _ops.append(theirs)
        _import([worker])
        _require_usable_gpu()
        os.environ.pop(_ASK_NVML, None)
        _serve(workers, functools.partial(_be_worker, worker))
        os._exit(0)
    theirs.close()
    workers.close()
    os.environ.pop(_ASK_NVML, None)
    _serve(ours, _be_op)


if __name__ == "__main__":
    # As a module of its own name: what is forked from here imports it again.
    from trifold.isolation import nursery

    with socket.socket(fileno=int(sys.argv[1])) as given:
        nursery._serve_both(given, sys.argv[2])
