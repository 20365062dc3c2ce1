"""The engine's findings in a kernel: a race, an index outside an array, a barrier that not all threads reach, …

A :class:`Finding` is one such mistake with the accesses involved. It can be printed as a paragraph (``str(finding)``)
and converted to a JSON object (:meth:`Finding.to_json`). An error raises :class:`KernelFault`; a warning is issued as
:class:`KernelWarning`; a lint is only recorded. The simulator and the checked C++ build produce the same records.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

FindingKind = Literal[
    "race",
    "out-of-bounds",
    "misaligned",
    "uninitialised read",
    "barrier divergence",
    "warp divergence",
    "deadlock",
    "barrier misuse",  # of one in shared memory
    "lifetime",  # of shared memory that another block of the cluster accesses; of memory of a stream
    "negative index",  # a lint only: Numba wraps a negative index, C++ does not
    "does not compile",  # a warning of the simulator: it runs there, Numba's CUDA target refuses it
]
Severity = Literal["error", "warning", "lint"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The line of a call."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Access:
    """One operation of one thread, or of a stream or the host, and its place.

    Attributes:
        thread, block: threadIdx and blockIdx as (x, y, z).
        interval: the number of completed barriers of the block; None if it is no longer known.
        operation: read, write, atomic, or what the thread is waiting for (barrier, …); between streams also
            allocation, free and launch.
        file, line, function: the line of the kernel; "" and 0 if it is not known.
        callers: of that function, innermost first, as far as they are known: for inlined calls, and for asynchronous
            operations.
        instruction: of the asynchronous operation, started there by the thread, that made the access (cp.async, …); ""
            if the thread made it.
        kernel: of the thread, if that belongs to an earlier launch; "" for the finding's own.
    """

    thread: tuple[int, int, int]
    block: tuple[int, int, int]
    interval: int | None
    operation: str
    file: str
    line: int
    function: str
    instruction: str = ""
    kernel: str = ""
    callers: tuple[Caller, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in a kernel.

    Attributes:
        kernel: the kernel's name.
        memory: global, shared, local or constant; "" if no memory is involved, or it is not known which.
        array: its name in the kernel's source; index: of the element, () if none is involved.
        message: what happened, both accesses and the remedy, in words.
        accesses: first the access at which the mistake was detected, then the earlier ones; between streams, then the
            launches of their kernels.
        seed: of the schedule in which it was found; 0 is the natural order; None: a GPU's own order.
        count: how often it occurred in its launch, if that continued.
        accepted, accepted_at: why the user accepts it, and where this is stated (:mod:`trifold.acceptance`); "" if it
            is not accepted.
    """

    kind: FindingKind
    severity: Severity
    kernel: str
    memory: str
    array: str
    index: tuple[int, ...]
    message: str
    accesses: tuple[Access, ...]
    seed: int | None = 0
    count: int = 1
    accepted: str = ""
    accepted_at: str = ""

    @property
    def is_mistake(self) -> bool:
        """Whether it is an error that is not accepted."""
        return self.severity == "error" and not self.accepted

    @property
    def replay(self) -> str:
        """The option that reproduces the schedule; empty if there is none."""
        return "" if self.seed is None else f"replay: --seed {self.seed}"

    def __str__(self) -> str:
        return f"{self.message}\n{self.replay}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON types, and ``replay``."""
        return {**asdict(self), "replay": self.replay}


def from_json(data: Mapping[str, Any]) -> Finding:
    """The finding of which :meth:`Finding.to_json`, or the engine, gave these fields."""
    accesses = tuple(_access(access) for access in data["accesses"])
    fields = {name: value for name, value in data.items() if name != "replay"}
    return Finding(**{**fields, "index": tuple(data["index"]), "accesses": accesses})


def _access(data: Mapping[str, Any]) -> Access:
    callers = tuple(Caller(**caller) for caller in data.get("callers", ()))
    return Access(**{**data, "thread": tuple(data["thread"]), "block": tuple(data["block"]), "callers": callers})


class KernelWarning(UserWarning):
    """Something in a kernel or a launch that works here but is not portable, or that is not checked."""


class KernelFault(RuntimeError):
    """A check found a mistake in a kernel.

    Attributes:
        findings: what was found; at least one.
    """

    def __init__(self, *findings: Finding) -> None:
        super().__init__("\n\n".join(map(str, findings)))
        self.findings = findings

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.findings


class OutOfBounds(KernelFault, IndexError):
    """A kernel used an index outside an array. The access was not performed."""


_listeners: list[Callable[[Finding], object]] = []


def listen(listener: Callable[[Finding], object]) -> None:
    """Call a function with every finding from now on: faults of launches, warnings and lints."""
    _listeners.append(listener)


def stop_listening(listener: Callable[[Finding], object]) -> None:
    """The reverse of :func:`listen`."""
    _listeners.remove(listener)


def record(finding: Finding) -> None:
    """Pass a finding to all collectors; one of severity warning is also issued as a :class:`KernelWarning`.

    Raises:
        KernelWarning: warnings are errors.
    """
    for listener in _listeners:
        listener(finding)
    if finding.severity == "warning" and not finding.accepted:
        frame = sys._getframe(1)  # who launched the kernel: the engine, which calls this, has no frames
        places = [(at.file, at.line) for at in finding.accesses if at.file]
        file, line = places[0] if places else (frame.f_code.co_filename, frame.f_lineno)
        warnings.warn_explicit(
            str(finding),
            KernelWarning,
            file,
            line,
            registry=frame.f_globals.setdefault("__warningregistry__", {}),
        )


@contextmanager
def collect() -> Iterator[list[Finding]]:
    """A context that yields a list, to which everything recorded is appended: faults, warnings and lints."""
    findings: list[Finding] = []

    def add(finding: Finding) -> None:
        findings.append(finding)

    listen(add)
    try:
        yield findings
    finally:
        stop_listening(add)
