"""libtrifold_host, which runs the C++ kernels of ports on the CPU, and calls of ports that were built with checks.

A checked call runs once for each schedule: an order of blocks and threads that a seed gives; seed 0 is the natural one.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trifold import installed
from trifold.acceptance import Acceptance, Accepted
from trifold.cpu import settings
from trifold.errors import LaunchError
from trifold.findings import Finding, KernelFault, OutOfBounds, from_json, record

if TYPE_CHECKING:
    from trifold.fresh_memory import FreshMemory


@dataclass(frozen=True)
class Schedules:
    """The orders in which a checked call runs.

    Attributes:
        seed: of the first; the others have the numbers that follow.
        count: how many.
    """

    seed: int = 0
    count: int = 1


_schedules = Schedules()
_capability: str | None = None


@contextmanager
def schedules(count: int, *, seed: int = 0) -> Iterator[None]:
    """Checked calls within it run so often, in orders that begin with ``seed``'s.

    Raises:
        ValueError: ``count`` is less than one, or ``seed`` is negative.
    """
    global _schedules
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, but is {seed}")
    before, _schedules = _schedules, replace(_schedules, seed=seed, count=count)
    try:
        yield
    finally:
        _schedules = before


def schedule_count() -> int:
    """How often a checked call runs now."""
    return _schedules.count


def note_memory(begin: int, size: int) -> None:
    """The checked call that runs has an array in these bytes; its pointers may be a kernel's arguments."""
    _library().trifold_host_note(begin, size)


def note_fresh(begin: int, size: int, element_bytes: int) -> None:
    """Nobody has written these bytes, which are filled with a pattern: what a kernel reads of them is a finding."""
    _library().trifold_host_note_fresh(begin, size, element_bytes)


def forget_fresh() -> None:
    """What was noted by :func:`note_fresh` holds no more."""
    _library().trifold_host_forget_fresh()


@functools.cache
def fresh_memory() -> FreshMemory:
    """What checked calls know of memory that nobody has written."""
    from trifold.fresh_memory import FreshMemory

    return FreshMemory(_library().trifold_host_note_fresh, _library().trifold_host_forget_fresh)


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(installed.cpu_library()))
    library.trifold_host_begin.argtypes = [ctypes.c_uint64]
    library.trifold_host_begin.restype = None
    library.trifold_host_note.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.trifold_host_note.restype = None
    library.trifold_host_note_fresh.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    library.trifold_host_note_fresh.restype = None
    library.trifold_host_forget_fresh.argtypes = []
    library.trifold_host_forget_fresh.restype = None
    library.trifold_host_record_writes.argtypes = [ctypes.c_bool, ctypes.c_char_p]
    library.trifold_host_record_writes.restype = None
    library.trifold_host_written.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    library.trifold_host_written.restype = None
    library.trifold_host_accept.argtypes = [ctypes.c_char_p]
    library.trifold_host_accept.restype = None
    library.trifold_host_findings.argtypes = []
    library.trifold_host_findings.restype = ctypes.c_char_p
    settings.apply(library)
    return library


def prepare() -> None:
    """Launches on the CPU follow the environment's settings from here on.

    Raises:
        LaunchError: a variable has a value that it cannot have.
    """
    _library()


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Launches within it end with an error after so many seconds of processor time; 0: never.

    The default is 60, or what the environment variable TRIFOLD_KERNEL_SECONDS says.

    Raises:
        ValueError: ``seconds`` is negative.
    """
    return settings.time_limit(_library(), seconds)


@contextmanager
def compute_capability(name: str | None) -> Iterator[None]:
    """Launches within it have to fit a GPU of this compute capability, such as ``"8.6"`` or ``"sm_86"``.

    None leaves what holds: the default is 9.0, or what the environment variable TRIFOLD_COMPUTE_CAPABILITY says.

    Raises:
        LaunchError: it is not known.
    """
    global _capability
    before, inner = _capability, name or _capability
    settings.limit_to(_library(), inner)
    _capability = inner
    try:
        yield
    finally:
        settings.limit_to(_library(), before)
        _capability = before


def accept(files: Iterable[Path], suppressions: Path | None = None) -> list[Acceptance]:
    """Checked kernels of these files are to run: their comments, and those of the files before, accept findings.

    Args:
        files: C++.
        suppressions: a file of more, see :mod:`trifold.acceptance`; None leaves what holds.

    Returns:
        Those among them that were not known.

    Raises:
        AcceptanceError: a comment, or the file, is wrong.
    """
    if suppressions is not None:
        accepted.suppress(suppressions)
    return accepted.take_files(files)


accepted = Accepted(lambda acceptances: _library().trifold_host_accept(acceptances.encode()))


def run_checked(call: Callable[[], Any]) -> Any:
    """The result of ``call``, an operator of a checked port, after it ran under each schedule.

    Raises:
        KernelFault: a kernel made a mistake; OutOfBounds, which is also an IndexError, where that is what it was.
        RuntimeError: what the call itself raises.
    """
    result = None
    for seed in range(_schedules.seed, _schedules.seed + _schedules.count):
        _library().trifold_host_begin(seed)
        try:
            result = call()
        except (RuntimeError, LaunchError):
            errors = [finding for finding in _take() if finding.is_mistake]
            if not errors:
                raise
            fault = OutOfBounds if errors[0].kind == "out-of-bounds" else KernelFault
            raise fault(*errors) from None
        _take()
    return result


def observe(call: Callable[[], object], seed: int) -> list[Finding]:
    """What the checks find in a call, under the schedule of this seed; recorded nowhere."""
    _library().trifold_host_begin(seed)
    call()
    return _found()


def record_writes(on: bool, library: Path | str | None = None) -> None:
    """From now on, note which bytes the kernels of checked launches write; or note no more.

    Switching it on forgets what was noted before; switching it off does not. It is off at first, which costs nothing.
    Kernels of ports without checks are not seen.

    Args:
        on: whether to note.
        library: count only kernels whose code is in this shared library, such as
            :attr:`trifold.build.library.BuiltLibrary.path`. What another library's kernel writes does not count, and
            what it overwrites counts no more.

    Raises:
        FileNotFoundError: there is no such library.
    """
    path = None if library is None else os.fsencode(Path(library).resolve(strict=True))
    _library().trifold_host_record_writes(on, path)


def written(begin: int, size: int) -> bytes:
    """For each byte of memory from the address ``begin`` on: 1 if a kernel was the last to write it, else 0.

    That is so where a launch since :func:`record_writes` wrote the byte, if only by an atomic, and it still holds what
    that launch left there. Memory is compared byte by byte, so an element is a kernel's where all of its bytes are 1: a
    number that something else overwrote may have some bytes in common with the one before. A value that something else
    writes again counts as the kernel's still, and so does one in the reused memory of a tensor that is gone.

    Args:
        begin: the address; the memory must be there, as that of a tensor is while the tensor lives.
        size: how many bytes.

    Raises:
        ValueError: ``size`` is negative.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, but is {size}")
    found = ctypes.create_string_buffer(size)
    _library().trifold_host_written(begin, size, found)
    return found.raw


def _take() -> list[Finding]:
    """What was found since the call began; each is recorded."""
    found = _found()
    for finding in found:
        record(finding)
    return found


def _found() -> list[Finding]:
    text: bytes = _library().trifold_host_findings()
    return [from_json(json.loads(line)) for line in text.decode(errors="replace").splitlines()]
