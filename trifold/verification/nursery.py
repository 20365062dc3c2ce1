"""Workers that start at once: a process that has imported all that a worker needs forks each of them.

Most of what a worker of a small op does is to import torch, Numba and what opcheck and torch.compile need: 3 s of
processor time, spent once for all cells of a run::

    with nursery.opened():
        verify(...)  # and another one

It serves cells on the CPU alone, since a process that was forked cannot use CUDA if its parent did. Where it cannot
serve, a worker is a fresh process, as without it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NoReturn

from trifold.build import script

if TYPE_CHECKING:
    from trifold.verification.job import CellName

# Read when they are needed, and not by a process that starts: a worker has its own.
_READ_LATE = frozenset({"CXX", "PYTEST_CURRENT_TEST", "TRIFOLD_CACHE_DIR", "TRIFOLD_KERNEL_SECONDS"})
# What a worker imports, and its checks in their course.
_IMPORTED = (
    "trifold.verification.worker",
    "numba.cuda",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._export",
    "torch.testing",
    "torch.utils.cpp_extension",
)


@dataclass(frozen=True)
class Forked:
    """A worker that was forked.

    Attributes:
        pid: of the worker, which leads a group of its own.
        status: tells how it ended.
    """

    pid: int
    status: IO[bytes]

    def wait(self) -> int:
        """How it ended, as ``subprocess.Popen.wait`` says it."""
        with self.status:
            told = self.status.readline()
        return int(told) if told else -signal.SIGKILL  # whoever waited for it was killed, too


class Nursery:
    """The process that forks workers. It starts when it is first needed, and ends when this process does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._environment: dict[str, str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, job: str, environment: Mapping[str, str], events: int, output: int) -> Forked | None:
        """A worker that was told ``job``; None where it must be a fresh process.

        Args:
            job: as JSON.
            environment: of the worker.
            events: the file descriptor that it writes events to.
            output: the file descriptor for what the op prints.
        """
        with self._lock:
            if self._process is None:
                self._open(environment)
        if _early(environment) != self._environment:
            return None
        late = {name: value for name, value in environment.items() if name in _READ_LATE}
        request = json.dumps({"job": job, "folder": os.getcwd(), "environment": late}).encode()
        read, write = os.pipe()
        status = open(read, "rb", buffering=0)  # noqa: SIM115 -- Forked.wait closes it
        try:
            with self._lock:
                socket.send_fds(self._socket, [request], [events, output, write])
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

    def _open(self, environment: Mapping[str, str]) -> None:
        self._environment = _early(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trifold.verification.nursery", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process, which ends the workers itself
            )

    def close(self) -> None:
        if self._process is not None:
            self._socket.close()
            self._process.wait()


_open: list[Nursery] = []


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Workers that start within are forked, where no GPU is.

    With a GPU what is imported starts CUDA, and a process that was forked after that cannot use it: torch.compile asks
    for the device's properties also where it compiles for the CPU.
    """
    import torch

    if _open or torch.cuda.is_available():  # open: by whoever runs this
        yield
        return
    _open.append(Nursery())
    try:
        yield
    finally:
        _open.pop().close()


def opened_for(cells: Iterable[CellName]) -> contextlib.AbstractContextManager[None]:
    """:func:`opened` where it is worth its time: from the third cell on."""
    return opened() if sum(cell.device == "cpu" for cell in cells) > 2 else contextlib.nullcontext()


def start(job: str, environment: Mapping[str, str], events: int, output: int) -> Forked | None:
    """:meth:`Nursery.start` of the open nursery; None where none is open."""
    return _open[0].start(job, environment, events, output) if _open else None


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _READ_LATE}


# ------------------------------------------------------------------------------------------- in the process that forks


def _serve(requests: socket.socket) -> None:
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):  # the worker says what it lacks
            importlib.import_module(name)
    os.environ.pop("LD_PRELOAD", None)  # the guard is for workers, not for the compilers that they start
    gc.freeze()  # what is never collected is never copied
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not request:
            break
        if os.fork() == 0:
            requests.close()
            _wait_for_worker(json.loads(request), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap(os.WNOHANG)
    _reap(0)


def _reap(options: int) -> None:
    """Take note of children that have ended: those that wait for a worker."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options) != (0, 0):
            pass


def _wait_for_worker(request: dict[str, object], events: int, output: int, status: int) -> None:
    pid = os.fork()
    if pid == 0:
        _work(request, events, output, status)
    os.close(events)
    os.close(output)
    _, ended = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)


def _work(request: dict[str, object], events: int, output: int, status: int) -> NoReturn:
    os.setsid()  # so that a hung worker goes with its compilers
    os.write(status, f"{os.getpid()}\n".encode())
    os.close(status)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    script.end_with(lambda: _check(request, events))


def _check(request: dict[str, object], events: int) -> int:
    os.chdir(str(request["folder"]))
    sys.path[0] = str(request["folder"])
    for name in _READ_LATE:
        os.environ.pop(name, None)
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    from trifold.verification import worker

    script.fork_from_now_on()
    worker.work(str(request["job"]), events)
    return 0


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given)
