"""Accesses outside the arguments, and outputs that are not written.

A guard allocator puts each block against memory that cannot be accessed, first after its end and then before its start,
fills it with nan and watches the rest of its pages: :mod:`trifold.guard` on the CPU, :mod:`trifold.device_guard` on a
GPU, where the op runs in a process of its own for this check.
"""

from __future__ import annotations

from trifold import guard
from trifold.spec import Call
from trifold.verification.cell import Absence, Cell, CheckFailed, NotRun
from trifold.verification.checks.differentiation import forward
from trifold.verification.checks.values import compare
from trifold.verification.remote import Told

_CALLS = 24  # drawn beside the fixed ones, for each placement


def bounds(cell: Cell) -> None:
    with cell.running_guarded():
        loaded = cell.process.load(build=cell.device == "cuda")
        if not loaded["guarded"]:
            if cell.device == "cpu":
                raise NotRun(Absence.NO_GUARD)
            raise NotRun(Absence.NO_DEVICE_GUARD, loaded["why unguarded"])
        # Accesses in the simulator are checked by NumPy; what the guard adds there is that fresh memory is nan.
        placements: tuple[guard.Mode, ...] = ("end",) if cell.simulated else ("end", "start")
        for placement in placements:
            _run_guarded(cell, placement)


def _run_guarded(cell: Cell, placement: guard.Mode) -> None:
    def test(call: Call) -> None:
        with cell.process.running(guard=placement) as told:
            compare(cell, call)
        _judge(cell, told, call)

    cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
    for call in cell.small_calls():
        cell.begin(call, f"gradients, guarded at the {placement}")
        with cell.process.running(guard=placement) as told:
            values = forward(cell, call, cell.implementation.function).values_and_gradients()
        _judge(cell, told, call)
        if any(bool(value.isnan().any()) for value in values if value.is_floating_point()):
            raise CheckFailed("a gradient has elements that were not written, or that come from outside", call)


def _judge(cell: Cell, told: Told, call: Call) -> None:
    if told.damage:
        raise CheckFailed(f"written outside a tensor: {'; '.join(told.damage)}", call)
    if told.unguarded and cell.device == "cuda":  # torch's own memory was shown to be guarded
        raise CheckFailed("a result lies in memory that torch did not allocate, so its bounds are not known", call)
    if told.unguarded:  # a torch whose allocator goes another way must not pass unchecked
        raise NotRun(Absence.NOT_GUARDED)
