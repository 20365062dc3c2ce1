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


def x_y_z(extent: Extent) -> tuple[int, int, int]:
    """An extent in three dimensions."""
    x, y, z = (*((extent,) if isinstance(extent, int) else extent), 1, 1)[:3]
    return x, y, z


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
    options = (more.get("limits"), more.get("cooperative", False))
    generator = inspect.isgeneratorfunction(kernel)
    _simulator.launch(
        kernel, generator, kernel.__name__, x_y_z(grid), x_y_z(block), 0, arguments, checks, seed, *options
    )
