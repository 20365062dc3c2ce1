"""Failures of an op's process: the exceptions that it raised, and its death, in words."""

from __future__ import annotations

import functools
import itertools
import re
from typing import IO, Any

import torch

from trifold.errors import of_signal
from trifold.findings import KernelFault, OutOfBounds, from_json
from trifold.isolation import guard

Json = Any


class OpDied(BaseException):
    """The op's process died, or does not answer.

    It is not an ``Exception``, so that hypothesis does not search for a smaller case.
    """


class OpHangs(OpDied):
    """The op's process did not answer within the time limit, and was ended."""


class RaisedByOp(Exception):
    """Base of exceptions that the op raised in its process.

    Attributes:
        place: the line of the op's Python files that raised it, as ``file:line``; empty if none did.
    """

    place = ""


def raised(error: Json) -> Exception:
    """An exception with the same name and message as the op's: a :class:`RaisedByOp`, or a fault of a kernel."""
    findings = tuple(from_json(data) for data in error["findings"])
    if findings:
        return (OutOfBounds if "OutOfBounds" in error["kinds"] else KernelFault)(*findings)
    made = _kind_of(tuple(error["kinds"]))(_THREAD.sub(r"thread (\1) of block (\2)", error["message"]))
    made.place = error["place"]
    return made


# The simulator names the thread of a prototype that raised as Numba's does.
_THREAD = re.compile(r"tid=\[([0-9, ]+)\] ctaid=\[([0-9, ]+)\]")

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
def _kind_of(names: tuple[str, ...]) -> type[RaisedByOp]:
    """A type of exception with the first name, derived from the same builtin type as the op's."""
    base = next((base for base in _BASES if base.__name__ in names), Exception)
    # KeyError's own __str__ would put the message in quotes.
    return type(names[0], (RaisedByOp, base), {"__str__": Exception.__str__})


def cause_of_death(status: int, output: IO[bytes], element_bytes: int) -> str:
    """The cause in words: the guard's report, or the signal, or the status and the last printed lines."""
    output.seek(0)
    printed = output.read().decode(errors="replace")
    accesses = [line for line in printed.splitlines() if line.startswith("trifold guard: ")]
    if accesses:
        fault = guard.Fault.parse(accesses[0]) if element_bytes else None
        words = fault.in_elements(element_bytes) if fault else accesses[0].removeprefix("trifold guard: ")
        return f"{words}; the process died of it"
    cause = f"the process died of {of_signal(-status)}" if status < 0 else f"the process ended with status {status}"
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    # A tool that runs a program exits with the number of the signal as its status.
    if status < 0 or any(line.startswith("Fatal Python error") for line in lines):
        # what() of a C++ exception, and the innermost Python line of the thread that died
        signs = ("what():",) if status < 0 else ("terminate called", "what():", "Fatal Python error")
        quoted = [line for line in lines if line.startswith(signs)][-len(signs) :]
        current = itertools.dropwhile(lambda line: not line.startswith("Current thread"), lines)
        quoted += [line for line in current if line.startswith("File ")][:1]
    else:
        quoted = [line for line in lines if not line.startswith("File ")][-3:]
    return f"{cause}{': ' + ' / '.join(quoted) if quoted else ''}"
