"""Modules of trifold that run as a process of their own, ``python -m``."""

from __future__ import annotations

import os
import sys


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
