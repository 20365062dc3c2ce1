"""Processes that trifold starts: its own modules, ``python -m``, and programs that must not outlive it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_prctl = ctypes.CDLL(None).prctl


def end_with_parent() -> None:
    """Make this process end, killed by a signal, when the thread that forked it ends: for ``preexec_fn``, and after
    ``os.fork``. A program that runs for hours would otherwise survive a command that was killed."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def command(module: str, *arguments: str) -> list[str]:
    """The command line of the module and its arguments.

    ``python -m`` alone would look for ``trifold`` in the current folder first. That may be a clone of trifold's
    repository, beside an installed trifold which has the compiled parts.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def import_from_here() -> None:
    """Begin ``sys.path`` with the current folder, as ``python -m`` does, for what an op imports. For such a module,
    once trifold has been imported."""
    sys.path.insert(0, os.getcwd())
