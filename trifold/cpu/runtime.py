"""libtrifold_cpu, which runs the C++ kernels of ports on the CPU, and calls of ports that were built with checks.

A checked call runs once for each schedule: an order of blocks and threads given by a seed; seed 0 is the natural one.
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
        seed: of the first; the others have the next numbers.
        count: their number.
    """

    seed: int = 0
    count: int = 1


_BEFORE_LAUNCH = ctypes.CFUNCTYPE(None)

_schedules = Schedules()
_capability: str | None = None


@contextmanager
def schedules(count: int, *, seed: int = 0) -> Iterator[None]:
    """Checked calls within it run ``count`` times, in orders that begin with ``seed``'s.

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
    """The number of schedules of a checked call."""
    return _schedules.count


def note_memory(begin: int, size: int) -> None:
    """The running checked call has an array in these bytes; pointers to it may be a kernel's arguments."""
    _library().trifold_cpu_note(begin, size)


def note_fresh(begin: int, size: int, element_bytes: int) -> None:
    """These bytes are uninitialised, and are filled with a pattern: a kernel's read of them is a finding."""
    _library().trifold_cpu_note_fresh(begin, size, element_bytes)


def forget_fresh() -> None:
    """Discard the records of :func:`note_fresh`."""
    _library().trifold_cpu_forget_fresh()


@functools.cache
def fresh_memory() -> FreshMemory:
    """The checked calls' record of uninitialised memory."""
    from trifold.fresh_memory import FreshMemory

    return FreshMemory(_library().trifold_cpu_note_fresh, _library().trifold_cpu_forget_fresh)


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(installed.cpu_library()))
    library.trifold_cpu_begin.argtypes = [ctypes.c_uint64]
    library.trifold_cpu_begin.restype = None
    library.trifold_cpu_note.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.trifold_cpu_note.restype = None
    library.trifold_cpu_note_fresh.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    library.trifold_cpu_note_fresh.restype = None
    library.trifold_cpu_forget_fresh.argtypes = []
    library.trifold_cpu_forget_fresh.restype = None
    library.trifold_cpu_record_writes.argtypes = [ctypes.c_bool, ctypes.c_char_p]
    library.trifold_cpu_record_writes.restype = None
    library.trifold_cpu_written.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    library.trifold_cpu_written.restype = None
    library.trifold_cpu_accept.argtypes = [ctypes.c_char_p]
    library.trifold_cpu_accept.restype = None
    library.trifold_cpu_findings.argtypes = []
    library.trifold_cpu_findings.restype = ctypes.c_char_p
    settings.apply(library)
    return library


def prepare() -> None:
    """Apply the environment's settings to launches on the CPU from now on.

    Raises:
        LaunchError: a variable has an invalid value.
    """
    _library()


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Launches within it end with an error after this many seconds of processor time; 0: never.

    The default is 60, or the environment variable TRIFOLD_KERNEL_SECONDS.

    Raises:
        ValueError: ``seconds`` is negative.
    """
    return settings.time_limit(_library(), seconds)


@contextmanager
def compute_capability(name: str | None) -> Iterator[None]:
    """Launches within it must fit a GPU of this compute capability, such as ``"8.6"`` or ``"sm_86"``.

    None changes nothing: the default is 9.0, or the environment variable TRIFOLD_COMPUTE_CAPABILITY.

    Raises:
        LaunchError: it is unknown.
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
    """Checked kernels of these files are about to run: comments in these and in earlier files accept findings.

    Args:
        files: C++.
        suppressions: a file of further acceptances, see :mod:`trifold.acceptance`; None changes nothing.

    Returns:
        Acceptances in these files that were not known before.

    Raises:
        AcceptanceError: a comment, or the file, is invalid.
    """
    if suppressions is not None:
        accepted.suppress(suppressions)
    return accepted.take_files(files)


accepted = Accepted(lambda acceptances: _library().trifold_cpu_accept(acceptances.encode()))


def run_checked(call: Callable[[], Any]) -> Any:
    """The result of ``call``, an operator of a checked port, after it ran under each schedule.

    Raises:
        KernelFault: an error in a kernel; OutOfBounds, which is also an IndexError, for an index out of bounds.
        RuntimeError: what the call itself raises.
    """
    result = None
    for seed in range(_schedules.seed, _schedules.seed + _schedules.count):
        _library().trifold_cpu_begin(seed)
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
    """The findings of a call under the schedule of this seed; they are not recorded."""
    _library().trifold_cpu_begin(seed)
    call()
    return _found()


@contextmanager
def before_each_launch(call: Callable[[], object]) -> Iterator[None]:
    """A context in which ``call`` is called before each launch of a checked port, by the thread that launches. It may
    launch kernels; an exception that it raises is ignored."""
    before = _library().trifold_cpu_before_checked_launch
    function = _BEFORE_LAUNCH(call)
    before(function)
    try:
        yield
    finally:
        before(_BEFORE_LAUNCH())


def record_writes(on: bool, library: Path | str | None = None) -> None:
    """From now on, record which bytes the kernels of checked launches write; or stop recording.

    Switching it on discards earlier records; switching it off does not. It is off initially, which costs nothing.
    Kernels of ports without checks are not recorded.

    Args:
        on: whether to record.
        library: count only kernels whose code is in this shared library, such as
            :attr:`trifold.build.library.BuiltLibrary.path`. Bytes that another library's kernel writes or overwrites do
            not count.

    Raises:
        FileNotFoundError: there is no such library.
    """
    path = None if library is None else os.fsencode(Path(library).resolve(strict=True))
    _library().trifold_cpu_record_writes(on, path)


def written(begin: int, size: int) -> bytes:
    """For each byte of memory from the address ``begin`` on: 1 if a kernel wrote it last, else 0.

    A byte counts if a launch since :func:`record_writes` wrote it, even if only by an atomic, and it still has that
    launch's value. Memory is compared byte by byte, so an element is a kernel's if all of its bytes are 1: a number
    that something else overwrote may have some bytes in common with the previous one. A value that something else
    writes again still counts as the kernel's, and so does one in the reused memory of a freed tensor.

    Args:
        begin: the address; the memory must be accessible, as a living tensor's is.
        size: the number of bytes.

    Raises:
        ValueError: ``size`` is negative.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, but is {size}")
    found = ctypes.create_string_buffer(size)
    _library().trifold_cpu_written(begin, size, found)
    return found.raw


def _take() -> list[Finding]:
    """The findings since the call began; each is recorded."""
    found = _found()
    for finding in found:
        record(finding)
    return found


def _found() -> list[Finding]:
    text: bytes = _library().trifold_cpu_findings()
    return [from_json(json.loads(line)) for line in text.decode(errors="replace").splitlines()]
