"""Who competes: eager PyTorch, torch.compile, the Numba prototype and the port, as functions of the same arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from trifold.bench.rows import COMPILED, EAGER, PORT, PROTOTYPE
from trifold.bench.timing import Competitor, Thunk
from trifold.cells import Device
from trifold.errors import TrifoldError
from trifold.spec.benchmark import Arguments, Benchmark
from trifold.workspace import OpFiles

Pass = Literal["plain", "forward", "backward", "forward + backward"]

SIMULATED_BYTES = 1 << 16  # what Numba's simulator moves in about a second


@dataclass(frozen=True)
class Entrant:
    """A competitor's function of a benchmark's arguments.

    Attributes:
        name: one of :data:`trifold.bench.rows.COMPETITORS`.
        function: called as ``function(*arguments)``; raises the reason if it cannot run.
        at_most: bytes that it can be asked to move in reasonable time; none: any number.
    """

    name: str
    function: Callable[..., Any]
    at_most: int | None = None


def entrants(benchmark: Benchmark, implementations: Mapping[str, Entrant], *, compiled: bool) -> list[Entrant]:
    """Eager and torch.compile of a benchmark, then the op's own implementations."""
    ours = [
        Entrant(entrant.name, _through(benchmark.call, entrant.function), entrant.at_most)
        for entrant in implementations.values()
    ]
    rivals = [Entrant(EAGER, benchmark.eager)]
    if compiled:
        rivals.append(Entrant(COMPILED, _compiled(benchmark.eager)))
    return rivals + ours


def _through(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    plain: Callable[..., Any] = Benchmark.call
    return function if call is plain else functools.partial(call, function)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` in torch.compile's default mode, for one shape: its generated code holds the sizes."""
    torch._dynamo.reset()
    compiled: Callable[..., Any] = torch.compile(function, dynamic=False)
    return compiled


def implementations(files: OpFiles, device: Device) -> dict[str, Entrant]:
    """The prototype and the port of an op; one that cannot be loaded raises the reason when it is called."""
    from trifold.implementation import load_port, load_prototype

    def port() -> Callable[..., Any]:
        implementation = load_port(files)
        implementation.kernels(device)
        return implementation.function

    def prototype() -> Callable[..., Any]:
        return load_prototype(files, device).function

    limit = SIMULATED_BYTES if device == "cpu" else None
    return {PROTOTYPE: Entrant(PROTOTYPE, _loaded(prototype), limit), PORT: Entrant(PORT, _loaded(port))}


def _loaded(load: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    try:
        return load()
    except TrifoldError as error:
        reason = error

        def refuse(*_: Any) -> Any:
            raise reason

        return refuse


def competitor(entrant: Entrant, inputs: Sequence[Arguments], which: Pass) -> Competitor:
    """``entrant`` on each of ``inputs``.

    ``plain`` calls it; ``forward`` lets it record a gradient; ``backward`` is the backward pass alone; ``forward +
    backward`` is both. Gradients are taken of all floating tensors with ``torch.autograd.grad``: nothing is
    accumulated, so that no time goes into that.
    """

    def prepare() -> list[Thunk]:
        return [_thunk(entrant.function, arguments, which) for arguments in inputs]

    return prepare


def _thunk(function: Callable[..., Any], arguments: Arguments, which: Pass) -> Thunk:
    if which == "plain":
        return functools.partial(function, *arguments)
    attached = tuple(
        value.detach().requires_grad_() if isinstance(value, Tensor) and value.is_floating_point() else value
        for value in arguments
    )
    if which == "forward":
        return functools.partial(function, *attached)
    leaves = [value for value in attached if isinstance(value, Tensor) and value.requires_grad]
    output = function(*attached)
    incoming = torch.randn_like(output)
    if which == "backward":
        return functools.partial(torch.autograd.grad, output, leaves, incoming, retain_graph=True)
    return lambda: torch.autograd.grad(function(*attached), leaves, incoming)
