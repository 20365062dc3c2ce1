"""Kernels written by hand in the form that the rewriter gives them: what a thread waits for, it yields."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from trifold import _simulator

Extent = int | tuple[int, ...]


def here() -> int:
    """The site of the line that calls."""
    frame = sys._getframe(1)
    return _simulator.register_site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def launch(
    kernel: Callable[..., Any],
    *arguments: Any,
    grid: Extent = 1,
    block: Extent = 1,
    seed: int = 0,
    checks: int = 0,
    **more: Any,
) -> None:
    """Runs ``kernel``, a function or generator function, with these arguments."""
    extents = [(e,) if isinstance(e, int) else e for e in (grid, block)]
    x_y_z = [(*e, 1, 1)[:3] for e in extents]
    options = (more.get("limits"), more.get("cooperative", False))
    generator = inspect.isgeneratorfunction(kernel) or hasattr(kernel, "send")
    _simulator.launch(kernel, generator, kernel.__name__, *x_y_z, 0, arguments, checks, seed, *options)
