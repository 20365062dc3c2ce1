"""Which calls launch which kernel instances. Costly checks use the fewest calls that launch all instances."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TypeVar

from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import forward

Name = TypeVar("Name")


def launching_calls(cell: Cell) -> tuple[tuple[str, Call], ...]:
    """The fewest fixed and small calls, by name, that launch every instance that any of them launches, forward and
    backward.

    They are in the order of the list; the small calls if no launch is known. Every call of the list runs once, the
    first time that a check of the cell calls this function.
    """
    if cell.launching is None:
        calls = [*cell.fixed_calls(), *(("small", call) for call in cell.small_calls())]
        cases = cell.cases
        launched = [_launched(cell, name, call) for name, call in calls]
        cell.cases = cases  # these cases do not count for the row that happens to come first
        chosen = covering(dict(enumerate(launched)))
        cell.launching = tuple(calls[n] for n in chosen) or tuple(("small", call) for call in cell.small_calls())
    return cell.launching


def _launched(cell: Cell, name: str, call: Call) -> set[str]:
    """The kernel instances that a call launches."""
    before = cell.process.branches()
    cell.run_case(lambda call: forward(cell, call, cell.implementation.function).gradients_of_sum(), call, name)
    return {instance for instance, count in cell.process.branches().items() if count != before.get(instance, 0)}


def covering(sets: Mapping[Name, Iterable[str]]) -> list[Name]:
    """A few of the sets, in order, that together have every element of all.

    Greedy: each time the set with the most missing elements, the first of several; then without those that later ones
    make superfluous.

    >>> covering({"a": {"x"}, "b": {"x", "y"}, "c": {"z"}, "d": set()})
    ['b', 'c']
    """
    elements = {name: set(those) for name, those in sets.items()}
    missing = set(itertools.chain.from_iterable(elements.values()))
    chosen: list[Name] = []
    while missing:
        best = max(elements, key=lambda name: len(elements[name] & missing))
        chosen.append(best)
        missing -= elements[best]
    for name in list(chosen):
        others = [elements[other] for other in chosen if other != name]
        if elements[name] <= set().union(*others):
            chosen.remove(name)
    return [name for name in elements if name in chosen]
