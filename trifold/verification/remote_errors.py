"""Failures of an op's process: the exceptions that it raised, and its death, in words."""

from __future__ import annotations

import functools
import itertools
import signal
from typing import IO, Any

import torch

from trifold.findings import KernelFault, OutOfBounds, from_json
from trifold.isolation import guard

Json = Any


class OpDied(BaseException):
    """The op's process died, or does not answer.

    It is not an ``Exception``, so that hypothesis does not search for a smaller case.
    """


def raised(error: Json) -> Exception:
    """An exception with the same name and message as the op's."""
    findings = tuple(from_json(data) for data in error["findings"])
    if findings:
        return (OutOfBounds if "OutOfBounds" in error["kinds"] else KernelFault)(*findings)
    return _kind_of(tuple(error["kinds"]))(error["message"])


_BASES = (
    torch.OutOfMemoryError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    IndexError,
    KeyError,
    ValueError,
    AttributeError,
    NameError,
    AssertionError,
    ImportError,
    ArithmeticError,
    MemoryError,
)


@functools.cache
def _kind_of(names: tuple[str, ...]) -> type[Exception]:
    """A type of exception with the first name, derived from the same builtin type as the op's."""
    base = next((base for base in _BASES if base.__name__ in names), Exception)
    return type(names[0], (base,), {})


def cause_of_death(status: int, output: IO[bytes], element_bytes: int) -> str:
    """The cause in words: the guard's report, or the signal, or the status and the last printed lines."""
    output.seek(0)
    printed = output.read().decode(errors="replace")
    accesses = [line for line in printed.splitlines() if line.startswith("trifold guard: ")]
    if accesses:
        fault = guard.Fault.parse(accesses[0]) if element_bytes else None
        words = fault.in_elements(element_bytes) if fault else accesses[0].removeprefix("trifold guard: ")
        return f"{words}; the process died of it"
    if status < 0:
        cause = f"the process died of {signal.Signals(-status).name}"
    else:
        cause = f"the process ended with status {status}"
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    # A tool that runs a program exits with the number of the signal as its status.
    if status < 0 or any(line.startswith("Fatal Python error") for line in lines):
        # what() of a C++ exception, and the innermost Python line of the thread that died
        signs = ("what():",) if status < 0 else ("terminate called", "what():", "Fatal Python error")
        told = [line for line in lines if line.startswith(signs)][-len(signs) :]
        current = itertools.dropwhile(lambda line: not line.startswith("Current thread"), lines)
        told += [line for line in current if line.startswith("File ")][:1]
    else:
        told = [line for line in lines if not line.startswith("File ")][-3:]
    return f"{cause}{': ' + ' / '.join(told) if told else ''}"
