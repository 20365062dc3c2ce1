"""Accesses outside of the arguments, and outputs that are not written.

A guard allocator puts memory that cannot be accessed directly after each block, and then directly before it. It fills
the block with nan and watches the rest of its pages: :mod:`trifold.isolation.guard` on the CPU,
:mod:`trifold.isolation.device_guard` on a GPU, where the op has a separate process for this check.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor

from trifold.isolation import guard
from trifold.spec import Call
from trifold.verification.calls import is_ordinary
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import forward
from trifold.verification.checks.instances import launching_calls
from trifold.verification.checks.values import compare
from trifold.verification.observations import Observations
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.remote_errors import OpDied

_CALLS = 24  # drawn calls, in addition to the fixed ones, for each placement


def bounds(cell: Cell) -> None:
    if cell.device == "cuda":
        # Every call runs once for this: faster here than with guarded memory. Failures show again below.
        with contextlib.suppress(Exception, OpDied):
            launching_calls(cell)
    with cell.running_guarded():
        loaded = cell.process.load(build=cell.device == "cuda")
        if not loaded["guarded"]:
            if cell.device == "cpu":
                raise NotRun(Absence.NO_GUARD)
            raise NotRun(Absence.NO_DEVICE_GUARD, loaded["why unguarded"])
        # The simulator checks accesses itself; the guard only adds that fresh memory is nan.
        placements: tuple[guard.Mode, ...] = ("end",) if cell.simulated else ("end", "start")
        for placement in placements:
            _run_guarded(cell, placement)


def _run_guarded(cell: Cell, placement: guard.Mode) -> None:
    def test(call: Call) -> None:
        _watch(cell, placement, call, lambda: compare(cell, call))

    if cell.device == "cpu" or placement == "end":
        cell.for_each_call(test, examples=min(_CALLS, cell.search.examples), fixed=cell.fixed_calls_of_one_dtype())
        backward = _calls_with_gradients(cell)
    else:  # mapping and filling memory takes time on a GPU: for the second placement, one call per instance is enough
        chosen = launching_calls(cell)
        for name, call in chosen:
            cell.run_case(test, call, name)
        backward = [call for _, call in chosen if call.elements > 0 and is_ordinary(call)]
    for call in backward:
        cell.begin(call, f"gradients, guarded at the {placement}")
        run = functools.partial(_values_and_gradients, cell, call)
        values = _watch(cell, placement, call, functools.partial(run, cell.implementation.function))
        # A result may be nan only where the reference's is.
        for value, right in zip(values, run(cell.reference), strict=False):
            if value.is_floating_point() and bool((value.isnan() & ~right.isnan()).any()):
                raise CheckFailed("a gradient has elements that were not written, or that come from outside", call)


def _values_and_gradients(cell: Cell, call: Call, function: Callable[..., Any]) -> tuple[Tensor, ...]:
    return tuple(forward(cell, call, function).values_and_gradients())


def _calls_with_gradients(cell: Cell) -> list[Call]:
    """Small calls; on a GPU also samples and edges, for the kernels that only larger calls launch."""
    small = cell.small_calls()
    if cell.device == "cpu":
        return small
    return [*small, *(call for _, call in cell.fixed_calls() if call.elements > 0 and is_ordinary(call))]


def _watch(cell: Cell, placement: guard.Mode, call: Call, run: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The results of ``run``, with the op's memory guarded."""
    try:
        with cell.process.running(guard=placement) as observed:
            values = run()
    except OpDied as death:
        if cell.device == "cpu" or "illegal" not in str(death).lower():  # on the CPU the guard itself reports the place
            raise
        raise OpDied(f"{death}: {_outside(cell, placement, run)}") from None
    _judge(cell, observed, call)
    return values


def _outside(cell: Cell, placement: guard.Mode, run: Callable[[], object]) -> str:
    """Where a kernel on a GPU accesses memory that it may not; the driver does not say where.

    With the other placement, the address that faulted has memory, in which the guard sees what was written.
    """
    other: guard.Mode = "start" if placement == "end" else "end"
    with cell.process.running(guard=other) as observed, contextlib.suppress(Exception):
        try:
            run()
        except OpDied:  # it died of the same access elsewhere; what it wrote is unknown
            return f"an access outside a tensor, on either side; memory was guarded at its {placement}"
    written = [_in_words(line, cell.process.element_bytes) for line in observed.damage]
    outside = "past the end" if placement == "end" else "before the start"
    return "; ".join(written) or f"a read {outside} of a tensor (nothing is written there)"


def _in_words(line: str, element_bytes: int) -> str:
    fault = guard.Fault.parse(line)
    return fault.in_elements(element_bytes) if fault and element_bytes else line.removeprefix("trifold guard: ")


def require_undamaged(observed: Observations, call: Call) -> None:
    """Raises ``CheckFailed`` if the guard found writes outside of tensors."""
    if observed.damage:
        raise CheckFailed(f"written outside a tensor: {'; '.join(observed.damage)}", call)


def _judge(cell: Cell, observed: Observations, call: Call) -> None:
    require_undamaged(observed, call)
    if observed.unguarded and cell.device == "cuda":  # the guard was tested, so this is not torch's memory
        raise CheckFailed("a result lies in memory that torch did not allocate, so its bounds are not known", call)
    if observed.unguarded:  # fail if torch allocates in another way, rather than pass unchecked
        raise NotRun(Absence.NOT_GUARDED)
