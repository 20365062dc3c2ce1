"""How a GPU is used: the current stream, no waiting, graph capture, the tensors' own device."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trifold.spec import Call
from trifold.verification.cell import Cell, CheckFailed, NotRun
from trifold.verification.checks.differentiation import forward
from trifold.verification.tolerance import same_bits

_SLEEP = 100_000_000  # clock cycles: about 50 ms, longer than any launch here


def _calls(cell: Cell) -> Iterator[Call]:
    """A few calls, of the kinds that take different ways through a binding."""
    for call in itertools.chain(itertools.islice((call for _, call in cell.fixed_calls()), 6), cell.spec.smooth):
        cell.begin(call)
        yield call


def _arguments(cell: Cell, call: Call) -> tuple[list[Any], list[int]]:
    args, _ = call.arguments(cell.device)
    return args, [position for position, value in enumerate(args) if isinstance(value, Tensor)]


def stream(cell: Cell) -> None:
    """In a side stream, behind a sleep: work in any other stream reads the arguments before they are written."""
    for call in _calls(cell):
        expected = cell.invoke(call)
        args, tensors = _arguments(cell, call)
        late = list(args)
        for position in tensors:
            late[position] = torch.zeros_like(args[position])
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(_SLEEP)
            for position in tensors:
                if 0 not in late[position].stride():
                    late[position].copy_(args[position])
                else:
                    late[position] = args[position].clone()
            results = [result.clone() for result in cell.invoke(call, (late, dict(call.kwargs)))]
        torch.cuda.synchronize()
        if not all(same_bits(a, b) for a, b in zip(results, expected, strict=True)):
            raise CheckFailed("the result in a side stream is wrong: a kernel ran in another stream", call)


def no_synchronisation(cell: Cell) -> None:
    """A call returns while the device still sleeps; so does its backward.

    What waits for the device waits each time. Another delay, such as a collection of garbage, comes once.
    """
    for call in _calls(cell):
        forward(cell, call, cell.implementation.function).values_and_gradients()
        waits = [_what_waits(cell, call)]
        while waits[-1] and len(waits) < 3:
            waits.append(_what_waits(cell, call))
        if waits[-1]:
            raise CheckFailed(f"{waits[-1]} waits for the device: it synchronises", call)


def _what_waits(cell: Cell, call: Call) -> str:
    """The call or its backward, where it returns after the device has slept; else nothing."""
    arguments = call.arguments(cell.device)  # copied from the host, which waits: before the sleep
    torch.cuda.synchronize()
    awake = torch.cuda.Event()
    torch.cuda._sleep(_SLEEP)
    awake.record()
    made = forward(cell, call, cell.implementation.function, arguments)
    late = "the call" if awake.query() else ""
    if not late and made.outputs[0].requires_grad and made.outputs[0].numel():
        torch.autograd.grad([o.sum() for o in made.outputs], made.inputs)
        late = "the backward" if awake.query() else ""
    torch.cuda.synchronize()
    return late


def graph(cell: Cell) -> None:
    """Captured once, replayed with other arguments; a random op draws new numbers, and repeats them by seed."""
    for call in _calls(cell):
        args, tensors = _arguments(cell, call)
        static = [value.clone() if position in tensors else value for position, value in enumerate(args)]
        warm = torch.cuda.Stream()
        with torch.cuda.stream(warm):
            cell.invoke(call, (static, dict(call.kwargs)))
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            results = cell.implementation.function(*static, **call.kwargs)
        # Capturing sets the generator's state on the device in the stream of the capture, and torch lets no replay wait
        # for that: a first replay at once may find it set only now, over its own.
        torch.cuda.synchronize()
        results = tuple(results) if isinstance(results, tuple | list) else (results,)
        if cell.spec.random:
            _replay_random(captured, results[0], call)
            continue
        for seed in (1, 2):
            fresh = [_other(value, seed) if position in tensors else value for position, value in enumerate(args)]
            for position in tensors:
                static[position].copy_(fresh[position])
            captured.replay()
            torch.cuda.synchronize()
            expected = cell.invoke(
                call, ([s.clone() if isinstance(s, Tensor) else s for s in static], dict(call.kwargs))
            )
            if not all(same_bits(a, b) for a, b in zip(results, expected, strict=True)):
                raise CheckFailed("a replayed graph gives another result than the call", call)


def _other(value: Tensor, seed: int) -> Tensor:
    """Other numbers; of indices, the same ones elsewhere."""
    if not value.is_floating_point():
        return value.flatten().roll(seed).view(value.shape)
    generator = torch.Generator(value.device).manual_seed(seed)
    return torch.randn(value.shape, generator=generator, device=value.device, dtype=torch.float32).to(value.dtype)


def _replay_random(captured: torch.cuda.CUDAGraph, result: Tensor, call: Call) -> None:
    drawn = []
    for seed in (5, None, 5):
        if seed is not None:
            torch.manual_seed(seed)
        captured.replay()
        drawn.append(result.clone())
    if result.numel() > 1 and same_bits(drawn[0], drawn[1]):
        raise CheckFailed("a replay draws the same numbers again", call)
    if not same_bits(drawn[0], drawn[2]):
        differ = int((drawn[0] != drawn[2]).sum())
        raise CheckFailed(
            f"torch.manual_seed before a replay does not repeat it: {differ} of {result.numel()} numbers differ", call
        )


def second_device(cell: Cell) -> None:
    """Arguments on another device than the current one: the result is there, and right."""
    if torch.cuda.device_count() < 2:
        raise NotRun("this machine has one CUDA device")
    for call in _calls(cell):
        expected = cell.invoke(call)
        args, _ = call.arguments("cuda:1")
        with torch.cuda.device(0):
            results = cell.invoke(call, (args, dict(call.kwargs)))
        for result, want in zip(results, expected, strict=True):
            if result.device != torch.device("cuda:1"):
                raise CheckFailed(f"the arguments are on cuda:1, the result is on {result.device}", call)
            if not same_bits(result.cpu(), want.cpu()):
                raise CheckFailed("the result on a device that is not the current one is wrong", call)
        if torch.cuda.current_device() != 0:
            raise CheckFailed("the call changes the current device", call)
