"""Accesses outside the arguments, and outputs that are not written.

On the CPU a guard allocator puts each block against a page that cannot be accessed, first after its end and then
before its start, fills it with nan and watches the slack (:mod:`trifold.guard`). On a GPU the output's memory comes
from a pool filled with nan; the bytes around the output must still be as they were.
"""

from __future__ import annotations

import torch

from trifold import guard
from trifold.spec import Call
from trifold.verification.cell import Absence, Cell, CheckFailed, NotRun
from trifold.verification.checks.differentiation import forward
from trifold.verification.checks.values import compare
from trifold.verification.remote import Told

_POISON = 0xFF  # every float type reads it as nan
_CALLS = 24  # drawn beside the fixed ones, for each placement


def bounds(cell: Cell) -> str | None:
    if cell.device == "cuda":
        _on_gpu(cell)
        return None
    if not cell.process.load(build=False)["guarded"]:
        raise NotRun(Absence.NO_GUARD)
    # A prototype's accesses are checked by NumPy; what the guard adds there is that fresh memory is nan.
    placements: tuple[guard.Mode, ...] = ("end",) if cell.kind == "prototype" else ("end", "start")
    for placement in placements:

        def test(call: Call, placement: guard.Mode = placement) -> None:
            with cell.process.running(guard=placement) as told:
                compare(cell, call)
            _judge(told, call)

        cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
        for call in cell.small_calls():
            cell.begin(call, f"gradients, guarded at the {placement}")
            with cell.process.running(guard=placement) as told:
                values = forward(cell, call, cell.implementation.function).values_and_gradients()
            _judge(told, call)
            if any(bool(value.isnan().any()) for value in values if value.is_floating_point()):
                raise CheckFailed("a gradient has elements that were not written, or that come from outside", call)
    return None


def _judge(told: Told, call: Call) -> None:
    if told.damage:
        raise CheckFailed(f"written outside a tensor: {'; '.join(told.damage)}", call)
    if told.unguarded:  # a torch whose allocator goes another way must not pass unchecked
        raise NotRun(Absence.NOT_GUARDED)


def _on_gpu(cell: Cell) -> None:
    def test(call: Call) -> None:
        torch.manual_seed(call.seed)
        told, (before, *rest) = cell.process.beside("pool", *call.arguments(cell.device))
        results, slack = rest[: told["results"]], rest[told["results"] :]
        if bool((before != _POISON).any()):
            raise CheckFailed("bytes before a result were written", call)
        for after in slack:
            if bool((after != _POISON).any()):
                offset = int((after != _POISON).int().argmax())
                raise CheckFailed(f"written {offset} bytes after the end of a result", call)
        compare(cell, call, tuple(results))

    cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
