"""The competitors, as functions of the same arguments: eager PyTorch, torch.compile, other libraries, CUB, the Numba
prototype and the port."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from trifold.bench import cub
from trifold.bench.gradients import attached, differentiable_results, require_all, split, tensors
from trifold.bench.peers import PACKAGES, Pass, PeerAbsent, Thunk, peer
from trifold.bench.rows import COMPILED, CUB, EAGER, PORT, PROTOTYPE, RIVALS
from trifold.bench.timing import Competitor
from trifold.cells import Device
from trifold.errors import TrifoldError
from trifold.spec.benchmark import Arguments, Benchmark
from trifold.spec.results import Gradients
from trifold.workspace import OpFiles

SIMULATED_BYTES = 1 << 16  # bytes that Numba's simulator moves in about a second


@dataclass(frozen=True)
class Entrant:
    """A competitor's function of a benchmark's arguments.

    Attributes:
        name: one of :data:`trifold.bench.rows.COMPETITORS`.
        function: called as ``function(*arguments)``; raises the reason if it cannot run.
        at_most: bytes that it can move in reasonable time; none: any number.
        own: for a pass that is not timed through ``function`` and autograd, how it makes the call.
        overwrites: it writes into its arguments.
        note: a remark for readers of its figures.
        absent: why it does not compete at all.
        refusal: why it does not compete with these arguments; empty if it does.
        check: called once with the arguments before it is timed; raises if it does not compute the op.
    """

    name: str
    function: Callable[..., Any]
    at_most: int | None = None
    own: Mapping[Pass, Callable[..., Thunk]] = field(default_factory=dict)
    overwrites: bool = False
    note: str = ""
    absent: str = ""
    refusal: Callable[[Arguments], str] | None = None
    check: Callable[[Arguments], None] | None = None

    def for_arguments(self, arguments: Arguments) -> Entrant:
        """Absent, if it refuses the arguments."""
        if self.absent or self.refusal is None:
            return self
        return replace(self, absent=self.refusal(arguments))


def rivals(text: str) -> tuple[str, ...]:
    """The names in ``--against``, such as "eager,quack".

    Raises:
        TrifoldError: a name is unknown.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in RIVALS:
            raise TrifoldError(f"--against: there is no competitor '{name}'", f"choose among {', '.join(RIVALS)}")
    return names


def entrants(
    benchmark: Benchmark, implementations: Mapping[str, Entrant], against: Collection[str], *, without: str = ""
) -> list[Entrant]:
    """The rivals named in ``against``, in the order of :data:`trifold.bench.rows.RIVALS`, then the port.

    Args:
        benchmark: states eager, the op's name in the libraries, and CUB's function.
        implementations: the op's own, by name.
        against: names out of :data:`trifold.bench.rows.RIVALS`.
        without: why other libraries cannot compete here; empty if they can.
    """
    found = []
    if "eager" in against:
        found.append(Entrant(EAGER, benchmark.eager))
    if "compile" in against:
        found.append(Entrant(COMPILED, _compiled(benchmark.eager)))
    found += [_library(name, benchmark, without) for name in PACKAGES if name in against]
    if CUB in against:
        found.append(_cub(benchmark, without))
    ours = [entrant for name, entrant in implementations.items() if name == PORT or "prototype" in against]
    return found + [replace(one, function=_through(benchmark.call, one.function)) for one in ours]


def _library(name: str, benchmark: Benchmark, without: str) -> Entrant:
    try:
        if without:
            raise PeerAbsent(without)
        if benchmark.peers is None:
            raise PeerAbsent(f"{name} does not have this op")
        found = peer(name, benchmark.peers)
    except PeerAbsent as error:
        return _absent(name, error)
    return Entrant(name, found.function, own=found.own, overwrites=found.overwrites, note=found.note)


def _cub(benchmark: Benchmark, without: str) -> Entrant:
    try:
        if without:
            raise PeerAbsent(without)
        found = cub.function_of(benchmark)
    except PeerAbsent as error:
        return _absent(CUB, error)

    def function(*args: Any, **kwargs: Any) -> Any:  # built on first call, so that nvcc only runs if a case needs it
        return found.load()(*args, **kwargs)

    check = functools.partial(cub.require_agreement, function, benchmark)
    assert benchmark.cub is not None
    refusal = functools.partial(cub.refusal, dtypes=benchmark.cub.dtypes)
    return Entrant(CUB, function, note=found.note, refusal=refusal, check=check)


def _absent(name: str, error: PeerAbsent) -> Entrant:
    return Entrant(name, _refusing(error), absent=": ".join(filter(None, (error.problem, error.remedy))))


def _through(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    plain: Callable[..., Any] = Benchmark.call
    return function if call is plain else functools.partial(call, function)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` in torch.compile's default mode, for one shape, whose sizes its generated code contains."""
    torch._dynamo.reset()
    compiled: Callable[..., Any] = torch.compile(function, dynamic=False)
    return compiled


def implementations(files: OpFiles, device: Device, against: Collection[str]) -> dict[str, Entrant]:
    """The port of an op and, if ``against`` has it, the prototype, which imports Numba.

    One that cannot be loaded raises the reason when it is called.
    """
    from trifold.implementation import load_port, load_prototype

    def port() -> Callable[..., Any]:
        implementation = load_port(files)
        implementation.kernels(device)
        return implementation.function

    def prototype() -> Callable[..., Any]:
        return load_prototype(files, device).function

    found = {PORT: Entrant(PORT, _loaded(port))}
    if "prototype" not in against:
        return found
    limit = SIMULATED_BYTES if device == "cpu" else None
    return {PROTOTYPE: Entrant(PROTOTYPE, _loaded(prototype), limit), **found}


def _loaded(load: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    try:
        return load()
    except Exception as error:  # its rows say why; the others are measured
        return _refusing(error)


def _refusing(reason: Exception) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise reason

    return refuse


def competitor(
    entrant: Entrant,
    inputs: Sequence[Arguments],
    which: Pass,
    gradients: Gradients | None = None,
    parameters: Sequence[str] = (),
) -> Competitor:
    """``entrant`` on each of ``inputs``.

    ``plain`` calls it; ``forward`` lets it record a gradient; ``backward`` is the backward pass alone; ``forward +
    backward`` is both. Gradients are computed by ``torch.autograd.grad``, so that no time is spent accumulating them.
    The gradient of a scalar is 1, as for ``loss.backward()``.

    Args:
        entrant: the competitor to time.
        inputs: its arguments.
        which: the pass.
        gradients: for which arguments and results; default: all floating ones.
        parameters: the names of positional arguments.
    """
    stated = gradients or Gradients()

    def prepare() -> list[Thunk]:
        if entrant.check is not None:
            entrant.check(inputs[0])
        copied = (_copied(arguments) if entrant.overwrites else arguments for arguments in inputs)
        return [_thunk(entrant, arguments, which, stated, parameters) for arguments in copied]

    return prepare


def _copied(arguments: Arguments) -> Arguments:
    def copy(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [copy(one) for one in value]
        return value.clone() if isinstance(value, Tensor) else value

    if isinstance(arguments, Mapping):
        return {name: copy(value) for name, value in arguments.items()}
    return tuple(map(copy, arguments))


def _thunk(
    entrant: Entrant, arguments: Arguments, which: Pass, gradients: Gradients, parameters: Sequence[str]
) -> Thunk:
    function = entrant.function
    args, kwargs = split(arguments)
    if which in entrant.own:
        return entrant.own[which](*args, **kwargs)
    if which == "plain":
        return functools.partial(function, *args, **kwargs)
    args, kwargs, leaves = attached(arguments, gradients, parameters)
    call = functools.partial(function, *args, **kwargs)
    if which == "forward":
        return call
    wanted = list(leaves.values())
    result = call()
    positions = differentiable_results(result, gradients)
    differentiable = [tensors(result)[position] for position in positions]
    upstream = [torch.ones_like(one) if one.dim() == 0 else torch.randn_like(one) for one in differentiable]
    backward = functools.partial(torch.autograd.grad, differentiable, wanted, upstream, retain_graph=True)
    if not entrant.overwrites:  # another backward pass would see this one's changes
        require_all(backward(allow_unused=True), leaves)
    if which == "backward":
        return backward
    if isinstance(result, Tensor):
        return lambda: torch.autograd.grad(call(), wanted, upstream)

    def both() -> object:
        results = tensors(call())
        return torch.autograd.grad([results[position] for position in positions], wanted, upstream)

    return both
