"""Records kernels that ran in the interpreter instead of compiled, and why; a line lists them when the process ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType

from trifold.errors import TrifoldError


class FallbackError(Exception):
    """A launch has to run in the interpreter, for this reason."""


class NotCompiledError(TrifoldError):
    """A kernel cannot run compiled, and may not run in the interpreter."""


_reasons: dict[tuple[str, str, int], str] = {}  # by name, file and line
_process = os.getpid()
_refused = False


@contextmanager
def refused() -> Iterator[None]:
    """Launches within it raise :class:`NotCompiledError` instead of running in the interpreter."""
    global _refused
    before, _refused = _refused, True
    try:
        yield
    finally:
        _refused = before


def note(function: FunctionType, reason: str) -> None:
    """Note that a launch of this kernel runs in the interpreter. The first reason is kept.

    Raises:
        NotCompiledError: it may not (:func:`refused`).
    """
    global _process
    if _refused:
        raise NotCompiledError(f"{function.__name__} cannot run as native code: {reason}")
    if not _reasons or _process != os.getpid():
        _process = os.getpid()
        atexit.unregister(_print)
        atexit.register(_print)
    code = function.__code__
    _reasons.setdefault((function.__name__, code.co_filename, code.co_firstlineno), " ".join(reason.split()))


def interpreted() -> dict[str, str]:
    """The kernels that ran in the interpreter so far, as ``name at file:line``, and why."""
    return {f"{name} at {_shown(file)}:{line}": reason for (name, file, line), reason in _reasons.items()}


def line() -> str:
    """The report for the user; "" if all kernels ran compiled."""
    parts = [f"{kernel} ({reason})" for kernel, reason in interpreted().items()]
    return f"trifold.simulator: in the interpreter: {'; '.join(parts)}" if parts else ""


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _print() -> None:
    if _process == os.getpid() and _reasons:
        print(line(), file=sys.stderr, flush=True)
