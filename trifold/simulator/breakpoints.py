"""``breakpoint()`` in a kernel: pdb with CUDA threads, unless something else is to be called."""

from __future__ import annotations

import os
import sys
from typing import Any

from trifold import _simulator


def install() -> None:
    """Answer ``breakpoint()``; where an editor's debugger does so already, it stays."""
    if sys.breakpointhook is sys.__breakpointhook__:
        sys.breakpointhook = stop


def uninstall() -> None:
    """``breakpoint()`` does again what Python does."""
    if sys.breakpointhook is stop:
        sys.breakpointhook = sys.__breakpointhook__


def stop(*arguments: Any, **keywords: Any) -> Any:
    """Stop at the caller's next line.

    On the host, where PYTHONBREAKPOINT names another debugger, and under pytest, which replaces ``pdb.set_trace``,
    Python's own hook decides. What it calls passes over this function: see :mod:`trifold.simulator.stepping`.
    """
    import pdb  # takes 13 ms, which programs without breakpoints need not spend

    if _simulator.current() is None or "PYTHONBREAKPOINT" in os.environ or pdb.set_trace.__module__ != "pdb":
        return sys.__breakpointhook__(*arguments, **keywords)
    from trifold.simulator.debugger import KernelDebugger

    KernelDebugger().set_trace(sys._getframe(1))
    return None
