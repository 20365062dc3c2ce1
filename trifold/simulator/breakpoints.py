"""``breakpoint()`` in a kernel: pdb with CUDA threads, unless another debugger is configured."""

from __future__ import annotations

import os
import sys
from typing import Any

from trifold import _simulator


def install() -> None:
    """Handle ``breakpoint()``, unless an editor's debugger already does."""
    if sys.breakpointhook is sys.__breakpointhook__:
        sys.breakpointhook = stop


def uninstall() -> None:
    """Restore Python's ``breakpoint()``."""
    if sys.breakpointhook is stop:
        sys.breakpointhook = sys.__breakpointhook__


def stop(*arguments: Any, **keywords: Any) -> Any:
    """Stop at the caller's next line.

    On the host, if PYTHONBREAKPOINT names another debugger, and under pytest, which replaces ``pdb.set_trace``,
    Python's own hook is called; its debugger skips this function: see :mod:`trifold.simulator.stepping`.
    """
    import pdb  # importing pdb takes 13 ms, so only on demand

    if _simulator.current() is None or "PYTHONBREAKPOINT" in os.environ or pdb.set_trace.__module__ != "pdb":
        return sys.__breakpointhook__(*arguments, **keywords)
    from trifold.simulator.debugger import KernelDebugger

    KernelDebugger().set_trace(sys._getframe(1))
    return None
