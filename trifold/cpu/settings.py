"""Settings of launches on the CPU: their time limit, the size of a thread's stack, and the GPU whose limits apply.

The environment variables TRIFOLD_KERNEL_SECONDS, TRIFOLD_KERNEL_STACK_KIB and TRIFOLD_COMPUTE_CAPABILITY set them for a
process; the library itself reads the first two when it is loaded.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from trifold.errors import LaunchError
from trifold.limits import COMPUTE_CAPABILITY, limits_of

KERNEL_SECONDS = "TRIFOLD_KERNEL_SECONDS"
KERNEL_STACK = "TRIFOLD_KERNEL_STACK_KIB"

_MOST_STACK_KIB = 1 << 20


def apply(library: ctypes.CDLL, environment: Mapping[str, str] = os.environ) -> None:
    """Check the environment's settings, and pass those to the library that it cannot read itself.

    Raises:
        LaunchError: a variable has an invalid value; the message names it.
    """
    _number(environment, KERNEL_SECONDS, 0, 1e9, "seconds, or 0 for no limit")
    _number(environment, KERNEL_STACK, 1, _MOST_STACK_KIB, "KiB; 64 is the default")
    limit_to(library, environment.get(COMPUTE_CAPABILITY))


def limit_to(library: ctypes.CDLL, capability: str | None) -> None:
    """Launches from now on must fit a GPU of this compute capability, see :func:`trifold.limits.limits_of`."""
    name, *values = limits_of(capability)
    library.trifold_cpu_set_limits(str(name).encode(), (ctypes.c_uint32 * len(values))(*map(int, values)))


@contextmanager
def time_limit(library: ctypes.CDLL, seconds: float) -> Iterator[None]:
    """Launches within it end with an error after this many seconds of processor time; 0: never.

    Raises:
        ValueError: ``seconds`` is negative.
    """
    if seconds < 0:
        raise ValueError(f"seconds must not be negative, but is {seconds}")
    read, write = library.trifold_cpu_kernel_seconds, library.trifold_cpu_set_kernel_seconds
    read.restype, write.argtypes, write.restype = ctypes.c_double, [ctypes.c_double], None
    before = read()
    write(seconds)
    try:
        yield
    finally:
        write(before)


def _number(environment: Mapping[str, str], variable: str, least: float, most: float, meaning: str) -> None:
    text = environment.get(variable, "")
    if not text:
        return
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise LaunchError(f"{variable} is '{text}'", f"set it to a number of {meaning}")
