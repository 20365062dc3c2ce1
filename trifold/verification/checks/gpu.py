"""How an op uses a GPU: the current stream, no synchronisation, graph capture, the device of its tensors.

Streams, events and graphs belong to the op's process; the results are compared here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.contract import others
from trifold.verification.checks.differentiation import forward, require_gradients
from trifold.verification.checks.instances import launching_calls
from trifold.verification.comparison import same_values
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.seeding import seed
from trifold.verification.tolerance import same_bits

_REPLAYS = 2  # of a graph, each with other numbers


def _calls(cell: Cell) -> Iterator[Call]:
    """The calls that launch every kernel instance."""
    for name, call in launching_calls(cell):
        cell.begin(call, name)
        yield call


def _beside(cell: Cell, call: Call, what: str, *, gradients: bool = False, **more: Any) -> tuple[Any, list[Tensor]]:
    arguments = call.arguments(cell.device)
    if gradients:
        require_gradients(arguments, call, cell.gradient_paths(call))
    seed(call.seed)
    return cell.process.beside(what, *arguments, **more)


def stream(cell: Cell) -> None:
    """Run in a side stream, after a sleep: work in any other stream reads the arguments before they are written."""
    for call in _calls(cell):
        expected = cell.invoke(call)
        _, results = _beside(cell, call, "stream")
        if not same_values(cell, call, results, expected):
            raise CheckFailed("the result in a side stream is wrong: a kernel ran in another stream", call)


def no_synchronisation(cell: Cell) -> None:
    """A call returns while the device still sleeps, and so does its backward.

    A call that waits for the device does so each time; another delay, such as garbage collection, does not repeat. If
    the spec says that calls wait, one must.
    """
    on_purpose = cell.spec.waits_for_gpu
    for call in _calls(cell):
        forward(cell, call, cell.implementation.function).values_and_gradients()
        waits = [_beside(cell, call, "waits", gradients=True)[0]["waits"]]
        while waits[-1] and len(waits) < 3:
            waits.append(_beside(cell, call, "waits", gradients=True)[0]["waits"])
        if waits[-1] and on_purpose:
            raise NotRun(Absence.WAITS, on_purpose)
        if waits[-1]:
            raise CheckFailed(f"{waits[-1]} waits for the device: it synchronises", call)
    if on_purpose:
        raise CheckFailed("no call waits for the device, although the spec says so: remove Spec(waits_for_gpu=...)")


def graph(cell: Cell) -> None:
    """Capture a call once and replay it with other arguments; a random op draws new numbers, and repeats them by
    seed."""
    if cell.spec.waits_for_gpu:  # the row `no sync` shows that it does
        raise NotRun(Absence.WAITS, cell.spec.waits_for_gpu)
    for call in _calls(cell):
        replays = [] if cell.spec.random else list(itertools.islice(others(call), _REPLAYS))
        seed(call.seed)
        sets = [call.arguments(cell.device), *(other.arguments(cell.device) for other in replays)]
        answer, tensors = cell.process.beside("graph", [list(one) for one in sets], {}, draws=cell.spec.random)
        if cell.spec.random:
            _check_draws(tensors, call)
            continue
        share = answer["results"]
        for number, other in enumerate(replays):
            expected = cell.invoke(other)
            if not same_values(cell, other, tensors[number * share : (number + 1) * share], expected[:share]):
                raise CheckFailed("a replayed graph has another result than the call", other)


def _check_draws(drawn: list[Tensor], call: Call) -> None:
    first, second, again = drawn
    if first.numel() > 1 and same_bits(first, second):
        raise CheckFailed("a replay draws the same numbers again", call)
    if not same_bits(first, again):
        differ = int((first != again).sum())
        raise CheckFailed(
            f"torch.manual_seed before a replay does not repeat it: {differ} of {first.numel()} numbers differ", call
        )


def second_device(cell: Cell) -> None:
    """Arguments on another device than the current one: the result is on their device, and right."""
    if torch.cuda.device_count() < 2:
        raise NotRun(Absence.ONE_GPU)
    for call in _calls(cell):
        expected = cell.invoke(call)
        with torch.cuda.device(0):
            results = cell.invoke(call, call.arguments("cuda:1"))
        for result in results:
            if result.device != torch.device("cuda:1"):
                raise CheckFailed(f"the arguments are on cuda:1, the result is on {result.device}", call)
        if not same_values(cell, call, [result.to("cuda:0") for result in results], expected):
            raise CheckFailed("the result on a device that is not the current one is wrong", call)
        if cell.process.settle() != 0:
            raise CheckFailed("the call changes the current device", call)
