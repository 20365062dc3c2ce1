"""Forks workers and ops' processes from a process that has already imported all modules that they need.

Without it, a worker of a small op spends most of its time on imports: torch, Numba, and the modules of opcheck and
torch.compile take 3 s of processor time, which is spent once for all cells of a run::

    with nursery.opened():
        verify(...)  # and another one

There are two such processes. The first imports what runs an op, and forks ops' processes. The second is forked from it,
also imports the verification, and forks workers. So an op's process never contains the verification.

There is such a pair for each kind of worker, by the environment variables that packages read when they are imported:
for the CPU, where GPUs are hidden, for prototypes on a GPU and for ports on a GPU. A forked process cannot use CUDA if
its parent did. So the pairs for a GPU make torch detect it by its management library, and test whether a process that
they fork can use it. If not, workers are fresh processes.
"""

from __future__ import annotations

import contextlib
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

from trifold import own_process
from trifold.build import script
from trifold.cells import CellName

# Variables that are read when they are needed, and not when a process starts: each worker gets its own.
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
# Variables that distinguish the kinds of workers.
_KINDS = ("CUDA_VISIBLE_DEVICES", "NUMBA_ENABLE_CUDASIM")
# Modules that run an op, in all checks together.
_OF_OPS = (
    "trifold.isolation.server",
    "numba.cuda",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._export",
    "torch.testing",
    "torch.utils.cpp_extension",
)
# Makes torch.cuda.is_available() ask the management library, which unlike CUDA leaves the process able to fork.
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


@dataclass(frozen=True)
class Forked:
    """A worker that was forked.

    Attributes:
        pid: of the worker, which leads its own process group.
        status: a pipe that reports the worker's exit status.
        ended: the exit status, once it has been read.
        reading: held by the thread that reads it.
    """

    pid: int
    status: IO[bytes]
    ended: list[int] = field(default_factory=list)
    reading: threading.Lock = field(default_factory=threading.Lock)

    def wait(self) -> int:
        """Wait for its end; returns the exit status as ``subprocess.Popen.wait`` does. Can be called again, and by
        several threads."""
        with self.reading:
            if not self.ended:
                with self.status:
                    line = self.status.readline()
                # Nothing: the process that waited for it was killed, too.
                self.ended.append(int(line) if line else -signal.SIGKILL)
            return self.ended[0]


class Nursery:
    """The process that forks workers. It is started on first use, and ends when this process does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._environment: dict[str, str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, worker: str, job: str, environment: Mapping[str, str], events: int, output: int) -> Forked | None:
        """Fork a worker for ``job``; None if it must be a fresh process.

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
                own_process.command("trifold.isolation.nursery", str(theirs.fileno()), worker),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={_ASK_NVML: "1", **environment},
                start_new_session=True,  # so that Ctrl-C reaches only this process, which ends the workers
            )

    def close(self) -> None:
        if self._process is not None:
            self._socket.close()
            self._process.wait()


class Nurseries:
    """A :class:`Nursery` for each kind of worker; the first worker of a kind sets the environment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_kind: dict[tuple[str | None, ...], Nursery] = {}

    def start(self, worker: str, job: str, environment: Mapping[str, str], events: int, output: int) -> Forked | None:
        """:meth:`Nursery.start` of the worker's kind."""
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
    """Workers that start within the context are forked."""
    if _open:  # already opened by the caller
        yield
        return
    _open.append(Nurseries())
    try:
        yield
    finally:
        _open.pop().close()


def opened_for(cells: Iterable[CellName]) -> contextlib.AbstractContextManager[None]:
    """:func:`opened` if it saves time: for two cells of one kind, as on the CPU, or for more of any kind."""
    devices = [cell.device for cell in cells]
    return opened() if len(devices) > 2 or devices == ["cpu", "cpu"] else contextlib.nullcontext()


def start(worker: str, job: str, environment: Mapping[str, str], events: int, output: int) -> Forked | None:
    """:meth:`Nurseries.start` of the open nurseries; None if none are open."""
    return _open[0].start(worker, job, environment, events, output) if _open else None


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _READ_LATE}


def _late(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in _READ_LATE}


def _ask(requests: socket.socket, request: dict[str, Any], descriptors: Sequence[int]) -> Forked | None:
    """Request a process; returns None if no nursery serves. The last descriptor is for what it prints."""
    read, write = os.pipe()
    status = open(read, "rb", buffering=0)  # noqa: SIM115 -- Forked.wait closes it
    try:
        socket.send_fds(requests, [json.dumps({**request, "folder": os.getcwd()}).encode()], [*descriptors, write])
    except OSError:  # the process that forks was killed
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

_ops: list[socket.socket] = []  # the socket on which a worker requests its op's process


def start_op(
    setup: dict[str, Any], environment: Mapping[str, str], connection: int, incoming: int, outgoing: int, output: int
) -> Forked | None:
    """Fork the process of an op; returns None if it must be a fresh process.

    Args:
        setup: the fields of :class:`trifold.isolation.server.Setup`, without its descriptors.
        environment: of the process.
        connection, incoming, outgoing, output: file descriptors.
    """
    if not _ops:
        return None
    request = {"setup": setup, "environment": _late(environment)}
    return _ask(_ops[0], request, [connection, incoming, outgoing, output])


# ---------------------------------------------------------------------------------------- in the processes that fork


def _serve(requests: socket.socket, work: Callable[[dict[str, Any], Sequence[int]], None]) -> None:
    gc.freeze()  # objects that are never collected stay in pages that forked processes share
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
    """Reap children that have ended: the processes that wait for a worker."""
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
    os.setsid()  # so that a hung worker can be killed together with its compilers
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
    """Import modules, without garbage collection, which takes a quarter of the time: modules stay alive."""
    gc.disable()
    for name in names:
        with contextlib.suppress(ImportError):  # a worker that needs it reports that it is missing
            importlib.import_module(name)
    gc.enable()


@functools.cache
def _of_gpu() -> bool:
    """Whether processes that are forked here may use a GPU. Cached before forking, so that they need not ask."""
    import torch

    return os.environ.get("CUDA_VISIBLE_DEVICES") != "" and torch.cuda.is_available()


def _require_usable_gpu() -> None:
    """End this process if a process that it forks cannot use the GPU, because an import here has initialised CUDA."""
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
        own_process.end_with_parent()  # workers must not be forked where ops cannot be
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
    # Imported under its own name, as forked processes do, so that its state exists once.
    from trifold.isolation import nursery

    own_process.import_from_here()
    with socket.socket(fileno=int(sys.argv[1])) as given:
        nursery._serve_both(given, sys.argv[2])
