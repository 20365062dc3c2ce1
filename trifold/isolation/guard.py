"""A guard allocator for the CPU: an access past a tensor's end or before its start ends the process with a report.

The library is preloaded into a separate process, where it does nothing until it is armed::

    environment = os.environ | preload_environment()
    subprocess.run([sys.executable, "worker.py"], env=environment)

    # worker.py
    with armed("end"):
        y = kernel(x)  # SIGSEGV, and one line: trifold guard: write 4 bytes past the end of block 17 (128 bytes)
    for line in damage():
        ...  # writes on a block's other side

Each tensor that is allocated while armed has its own pages, starts as NaN in every floating type, and has only
its elements' alignment. A tensor's memory means its storage: the gaps of a strided view belong to it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trifold import installed
from trifold.errors import ToolchainError

Mode = Literal["end", "start"]

_LIBRARY = "libtrifold_guard.so"
PLACEMENTS: dict[Mode, int] = {"end": 1, "start": 2}
_DAMAGE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Fault:
    """One access outside a block, as the guard reports it.

    Attributes:
        access: ``read``, ``write``, or ``access`` if the processor does not report which.
        side: ``past the end``, ``before the start`` or, in a freed block, ``inside``.
        distance: in bytes from that side; the first byte outside is 1. Inside: from the start, the first byte is 0.
        block: the block's serial number in its process.
        size: of the block, in bytes.
        freed: whether the block had been freed.
    """

    access: str
    side: Literal["past the end", "before the start", "inside"]
    distance: int
    block: int
    size: int
    freed: bool

    @classmethod
    def parse(cls, line: str) -> Fault | None:
        """The fault that ``line`` reports; None if it reports none."""
        match = re.match(
            r"trifold guard: (?P<access>\w+) (?:(?P<outside>\d+) bytes? (?P<side>past the end|before the start)"
            r"|byte (?P<inside>\d+)) of (?P<freed>the freed )?block (?P<block>\d+) \((?P<size>\d+) bytes?\)",
            line,
        )
        if match is None:
            return None
        return cls(
            access=match["access"],
            side=match["side"] or "inside",  # type: ignore[arg-type]
            distance=int(match["outside"] or match["inside"]),
            block=int(match["block"]),
            size=int(match["size"]),
            freed=match["freed"] is not None,
        )

    def in_elements(self, element_bytes: int) -> str:
        """The fault in words, counted in elements of ``element_bytes`` bytes.

        >>> line = "trifold guard: write 4 bytes before the start of block 17 (128 bytes)"
        >>> Fault.parse(line).in_elements(4)
        'write 1 element before the start of a tensor of 32 elements'
        """
        owner = f"a {'freed ' if self.freed else ''}tensor of {_elements(self.size // element_bytes)}"
        if self.side == "inside":
            return f"{self.access} of element {self.distance // element_bytes} of {owner}"
        return f"{self.access} {_elements(-(-self.distance // element_bytes))} {self.side} of {owner}"


def _elements(count: int) -> str:
    return f"{count} element{'' if count == 1 else 's'}"


def library_path() -> Path:
    """The library to preload.

    Raises:
        ToolchainError: it was not built: trifold is not installed, or this platform has no GNU C library.
    """
    path = installed.find(_LIBRARY)
    if path is None:
        raise ToolchainError(
            f"trifold's guard allocator ({_LIBRARY}) is not built here",
            "install trifold with `pip install -e .` on Linux with the GNU C library",
        )
    return path


def preload_environment() -> dict[str, str]:
    """Environment variables with which a process starts with the guard; empty if the guard is not available."""
    try:
        library = str(library_path())
    except ToolchainError:
        return {}
    present = os.environ.get("LD_PRELOAD", "")
    return {"LD_PRELOAD": f"{library}:{present}" if present else library}


@functools.cache
def _preloaded() -> ctypes.CDLL | None:
    """The guard, if it was preloaded into this process."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "trifold_guard_is_active"):
        return None
    process.trifold_guard_check.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    process.trifold_guard_check.restype = ctypes.c_size_t
    process.trifold_guard_holds.argtypes = [ctypes.c_void_p]
    return process


def _active() -> ctypes.CDLL:
    guard = _preloaded()
    if guard is None or not guard.trifold_guard_is_active():
        raise ToolchainError(
            "the guard allocator is not active in this process",
            "start the process with the environment that trifold.isolation.guard.preload_environment() names",
        )
    return guard


def is_active() -> bool:
    """Whether this process allocates through the guard, armed or not."""
    guard = _preloaded()
    return guard is not None and bool(guard.trifold_guard_is_active())


def holds(pointer: int) -> bool:
    """Whether ``pointer`` (such as ``tensor.data_ptr()``) is in guarded memory; shows that arming had an effect."""
    guard = _preloaded()
    return guard is not None and bool(guard.trifold_guard_holds(pointer))


@contextmanager
def armed(mode: Mode) -> Iterator[None]:
    """Guard each block of 1 byte to 64 MiB that any thread allocates within the context; cannot be nested.

    Args:
        mode: ``end`` places a block's last byte directly before inaccessible memory, ``start`` its first byte directly
            after it. On the other side, up to a page away, :func:`damage` reports writes, and reads are not detected.

    Raises:
        ToolchainError: the guard is not active, or the process may not reserve 64 GiB of addresses.
    """
    guard = _active()
    error = guard.trifold_guard_arm(PLACEMENTS[mode])
    if error:
        raise ToolchainError(
            f"the guard allocator cannot reserve its address range: {os.strerror(error)}",
            "raise the limit of virtual memory: ulimit -v unlimited",
        )
    try:
        yield
    finally:
        guard.trifold_guard_disarm()


@contextmanager
def aligned(least: int) -> Iterator[None]:
    """Align tensors that are allocated within the context to ``least`` bytes, a power of two, if the guard is active.
    torch's own are aligned to 64 bytes on the CPU, and to 512 on a GPU."""
    guard = _preloaded()
    if guard is None:
        yield
        return
    guard.trifold_guard_align(ctypes.c_size_t(least))
    try:
        yield
    finally:
        guard.trifold_guard_align(ctypes.c_size_t(1))


def damage() -> list[str]:
    """One line for each canary overwritten since the last call, in blocks that exist and in those freed since.

    :meth:`Fault.parse` reads them. After 64 KiB of text, the last line counts the rest.

    Raises:
        ToolchainError: the guard is not active.
    """
    return read_damage(_active().trifold_guard_check)


def read_damage(check: Callable[[ctypes.Array[ctypes.c_char], int], int]) -> list[str]:
    """The lines that a guard's function ``check(buffer, size)`` writes; it returns their number."""
    buffer = ctypes.create_string_buffer(_DAMAGE_BYTES + 1)
    count = check(buffer, len(buffer))
    lines = buffer.value.decode().splitlines()
    if count > len(lines):
        lines.append(f"trifold guard: {count - len(lines)} more damaged canaries")
    return lines
