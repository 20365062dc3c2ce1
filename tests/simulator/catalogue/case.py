"""A kernel of the catalogue: what runs it, and what the simulator must say of it.

A kernel is entered by a decorator above ``@cuda.jit``: :func:`wrong` with what must be found, or :func:`right`. Both
take ``run``, which launches the kernel and compares its result with NumPy's. Lines are named by comments in the
kernel's source, such as ``# first``, so that an edit of the file does not move them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Coordinates = tuple[int, int, int]
ANY = None  # a thread that the schedule or the checker's memory decides
Kernel = Any  # what @cuda.jit returns: its type depends on whether Numba's simulator is on


@dataclass(frozen=True)
class At:
    """One access of a finding: the line that carries ``# mark``, and who was there in the natural order."""

    mark: str
    operation: str
    thread: Coordinates | None
    block: Coordinates | None


@dataclass(frozen=True)
class Expected:
    """The expected finding.

    In the natural order: this kind, with these accesses in this order. In a seeded order another thread may be first:
    a kind of ``kind`` or ``or_kinds``, at lines that carry any mark of the kernel.
    """

    kind: str
    array: str | None
    memory: str | None
    accesses: tuple[At, ...]
    severity: str = "error"
    or_kinds: tuple[str, ...] = ()
    any_array: bool = False  # in a seeded order another array may be met first
    only_some_orders: bool = False  # a seeded order may hide it


@dataclass(frozen=True)
class Case:
    kernel: Kernel
    run: Callable[[Kernel], None]
    expected: Expected | None
    helpers: tuple[Kernel, ...]

    @property
    def name(self) -> str:
        return str(_function(self.kernel).__name__)

    def kernels(self) -> list[str]:
        """Names of kernels in which the finding may be made: a helper may be one that reads the kernel's result."""
        return [_function(jitted).__name__ for jitted in (self.kernel, *self.helpers)]

    def lines(self) -> dict[str, set[tuple[str, int]]]:
        """For each mark, the (file, line) that carry it, in the kernel and its helpers."""
        found: dict[str, set[tuple[str, int]]] = {}
        for jitted in (self.kernel, *self.helpers):
            function = _function(jitted)
            lines, start = inspect.getsourcelines(function)
            for number, text in enumerate(lines, start):
                _, hash_sign, comment = text.partition("#")
                for mark in comment.split(",") if hash_sign else ():
                    found.setdefault(mark.strip(), set()).add((inspect.getfile(function), number))
        return found


CASES: list[Case] = []


def wrong(
    kind: str,
    array: str | None,
    memory: str | None,
    *accesses: At,
    run: Callable[[Kernel], None],
    helpers: tuple[Kernel, ...] = (),
    **more: Any,
) -> Callable[[Kernel], Kernel]:
    """Enters a kernel in which a finding of ``kind`` on ``array`` must be made; ``more`` are :class:`Expected`'s."""
    return _enter(run, Expected(kind, array, memory, accesses, **more), helpers)


def right(*, run: Callable[[Kernel], None], helpers: tuple[Kernel, ...] = ()) -> Callable[[Kernel], Kernel]:
    """Enters a kernel in which nothing may be found, and whose result ``run`` checks."""
    return _enter(run, None, helpers)


def read(mark: str, thread: int | Coordinates | None, block: int | Coordinates | None = 0) -> At:
    return At(mark, "read", _coordinates(thread), _coordinates(block))


def write(mark: str, thread: int | Coordinates | None, block: int | Coordinates | None = 0) -> At:
    return At(mark, "write", _coordinates(thread), _coordinates(block))


def atomic(mark: str, thread: int | Coordinates | None, block: int | Coordinates | None = 0) -> At:
    return At(mark, "atomic", _coordinates(thread), _coordinates(block))


def waits(operation: str, mark: str, thread: int | Coordinates | None, block: int | Coordinates | None = 0) -> At:
    """A thread that waits at a barrier, a rendezvous of its warp, or in a loop that polls."""
    return At(mark, operation, _coordinates(thread), _coordinates(block))


def _enter(
    run: Callable[[Kernel], None], expected: Expected | None, helpers: tuple[Kernel, ...]
) -> Callable[[Kernel], Kernel]:
    def enter(kernel: Kernel) -> Kernel:
        CASES.append(Case(kernel, run, expected, helpers))
        return kernel

    return enter


def _coordinates(value: int | Coordinates | None) -> Coordinates | None:
    return (value, 0, 0) if isinstance(value, int) else value


def _function(jitted: Kernel) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(jitted, "fn", None) or jitted.py_func
    return function
