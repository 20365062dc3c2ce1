"""Calls that are too large for the simulator, with a prototype's kernels as native code."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.outcomes import CheckFailed


def as_native_code(cell: Cell, tests: Iterable[tuple[Callable[[Call], object], Call]]) -> str | None:
    """Run each test on its call until a kernel cannot be translated; what was done, in words, or None if there are
    none."""
    most = 0
    for test, call in tests:
        try:
            with cell.process.running(native=True):
                cell.run_case(test, call, "as native code")
        except CheckFailed as error:
            if type(error.__cause__).__name__ != "NotCompiledError":
                raise
            return f"not on {call.elements:,} elements: {error.__cause__}"
        most = max(most, call.elements)
    return f"on up to {most:,} elements as native code" if most else None
