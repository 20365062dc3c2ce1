"""How to start an op's process, wait for it and end it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Protocol

_ROUNDS = 10
START_S = 600.0  # to start a process and to build, which is not part of a case and is slow on a busy machine


class Process(Protocol):
    """A process that was started, such as ``subprocess.Popen``."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int: ...


class Start(Protocol):
    """Starts an op's process.

    Args:
        connection, incoming, outgoing: file descriptors, see :class:`trifold.isolation.server.Setup`.
        output: receives what it prints.
        under: a tool that runs it: the beginning of its command line.
        environment: variables in addition to those of this process.
    """

    def __call__(
        self,
        connection: int,
        incoming: int,
        outgoing: int,
        output: IO[bytes],
        *,
        under: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Process: ...


def wait_for(process: Process, seconds: float) -> int:
    """As ``process.wait()`` with a time limit in seconds; raises TimeoutError."""
    if isinstance(process, subprocess.Popen):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
    ended: list[int] = []
    waiting = threading.Thread(target=lambda: ended.append(process.wait()), daemon=True)
    waiting.start()
    waiting.join(seconds)
    if not ended:
        raise TimeoutError
    return ended[0]


def kill_session(pid: int) -> None:
    """Kill a process that leads a session, and all that belong to it: ninja runs each compiler in a process group of
    its own, which outlives a killed ninja."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for _ in range(_ROUNDS):  # one that was forked meanwhile is found by the next
        members = _members(pid)
        if not members:
            return
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


def _members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # The fields after the program's name, which may contain anything: state, parent, group, session.
            state, _, _, own = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
            if int(own) == session and state not in "ZX":
                found.append(int(folder.name))
    return found
