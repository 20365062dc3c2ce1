"""The benchmarks of an op, for ``trifold bench``: inputs, the PyTorch equivalent, bytes, and targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from trifold.spec.case import DTYPES
from trifold.spec.drawn import Draw, matrix, vector
from trifold.spec.results import NO_GRADIENTS, Gradients

# Positional arguments, or all by keyword.
Arguments = tuple[Any, ...] | Mapping[Any, Any]
Roofline = Literal["copy", "write"]
GpuMethod = Literal["graph", "events"]
Measure = Literal[
    "roofline", "over eager", "over torch.compile", "over liger", "over quack", "over cub", "over the fastest peer"
]
CubFunction = Literal["DeviceScan::InclusiveSum", "DeviceHistogram::HistogramEven", "DeviceSegmentedReduce::ArgMax"]

HALF_AND_SINGLE = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Case:
    """One point of a benchmark's grid: a label for tables, and the sizes that it denotes."""

    label: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A figure that the port must reach on a GPU.

    Attributes:
        measure: ``roofline``: the fraction of the roofline's rate; ``over ...``: that competitor's time over the
            port's. In each case the fastest peer is the fastest of eager, torch.compile and the libraries in
            :mod:`trifold.bench.peers` that have the op, and of CUB where the benchmark states it; it is defined only
            if all of them competed.
        at_least: for ``measure``; 1 / 1.3 says "at most 1.3 times the time".
        method: ``graph``, ``events``, or one of the rows ``host: no grad``, ``host: forward`` and
            ``host: forward + backward``.
        cases: labels of the cases to which it applies; none: all.
        least_bytes: it applies to cases that move as many bytes or more.
        mean: it applies to the geometric mean, or the median, over those cases; default: to each.
    """

    measure: Measure
    at_least: float
    method: str = "graph"
    cases: tuple[str, ...] = ()
    least_bytes: int = 0
    mean: Literal["geometric mean", "median"] | None = None


@dataclass(frozen=True, kw_only=True)
class Cub:
    """A device function of CUB with which an op is compared.

    Attributes:
        function: one of those in :mod:`trifold.bench.cub`; the arguments must be those listed there.
        agrees: whether a result of it is right, ``agrees(result, *arguments)``, for a function that does not compute
            quite the same; default: it is compared with ``Benchmark.eager`` in float64.
        dtypes: of tensors for which it computes the same as the op.
    """

    function: CubFunction
    agrees: Callable[..., bool] | None = None
    dtypes: tuple[torch.dtype, ...] = DTYPES


def _plain_call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One table of figures of an op.

    Attributes:
        name: such as "forward", "backward", "independent noise".
        cases: the grid.
        arguments: returns the inputs, ``arguments(device, dtype, case)``: a tuple, or a dictionary of keyword
            arguments. They may contain lists of tensors.
        eager: the PyTorch equivalent, called with the same arguments; torch.compile compiles it.
        bytes: how many must be moved, ``bytes(case, dtype)``: each input read once, each output written once.
        dtypes: each case is measured with each of them.
        draw: returns the sizes of a case drawn at random, for ``--shapes random:N``: one function of
            :mod:`trifold.spec.drawn`, or one like them; default: each size between the smallest and the largest that
            ``cases`` have in its place.
        call: calls an implementation's public function with the arguments, ``call(function, *arguments)``.
        gradients: which arguments and results have one; default: as the spec states, or ``ports/<op>.py``.
        parameters: the names of the arguments in ``gradients``; default: the parameters of ``call`` after the function
            or, without ``call``, those of the op's public function.
        backward: measure the backward pass alone.
        training: measure forward and backward together: for an op that computes its gradient in the forward pass.
        peers: the op's name in :mod:`trifold.bench.peers`, if other libraries have it, too; ``arguments`` must then be
            those listed there.
        cub: the device function of CUB that computes the same, if there is one; it has no gradient.
        roofline: the rate to compare with: ``copy`` reads as much as it writes, ``write`` only writes.
        methods: how it is timed on a GPU; see :mod:`trifold.bench.timing`.
        host: a small case for which the host's time is measured, too: without grad and, for an op with a gradient, the
            forward pass that records it, and forward + backward.
        targets: what must be reached.
    """

    name: str
    cases: tuple[Case, ...]
    arguments: Callable[[torch.device, torch.dtype, Case], Arguments]
    eager: Callable[..., Any]
    bytes: Callable[[Case, torch.dtype], int]
    dtypes: tuple[torch.dtype, ...] = HALF_AND_SINGLE
    draw: Draw | None = None
    call: Callable[..., Any] = _plain_call
    gradients: Gradients | None = None
    parameters: tuple[str, ...] = ()
    backward: bool = False
    training: bool = False
    peers: str | None = None
    cub: Cub | None = None
    roofline: Roofline = "copy"
    methods: tuple[GpuMethod, ...] = ("graph",)
    host: Case | None = None
    targets: tuple[Target, ...] = ()

    @property
    def differentiable(self) -> bool:
        """Whether there is a gradient to measure."""
        return self.gradients is None or self.gradients.arguments != ()


ELEMENTWISE_CASES = tuple(Case(f"2^{k}", (1 << k,)) for k in range(10, 29, 2))

# Two runs of one kernel agree to about 1% in graph replay; a slowdown that shows above that counts.
NO_SLOWER = 0.98


def elementwise_benchmarks(
    eager: Callable[..., Any],
    *,
    inputs: int = 1,
    backward_moves: int = 0,
    gradients: Gradients | None = None,
    cases: tuple[Case, ...] = ELEMENTWISE_CASES,
) -> tuple[Benchmark, ...]:
    """Benchmarks of the forward pass of an elementwise op and, if it moves data, of the backward pass.

    Args:
        eager: PyTorch's own op, a function of ``inputs`` tensors.
        inputs: how many tensors of one size it takes; they are standard normal.
        backward_moves: how many tensors of that size a backward pass must read and write, the incoming gradient
            included; 0: it launches nothing, and there is no benchmark of it.
        gradients: as of :class:`Benchmark`; ``NO_GRADIENTS`` where ``eager`` has none.
        cases: sizes; default 2^10 to 2^28 in steps of 2^2.
    """
    largest = max(cases, key=lambda case: case.sizes).label
    targets = (
        Target(measure="roofline", at_least=0.97, cases=(largest,)),
        Target(measure="over eager", at_least=NO_SLOWER),
        Target(measure="over torch.compile", at_least=NO_SLOWER),
    )
    host_targets = [Target(measure="over eager", at_least=1 / 1.3, method="host: no grad")]
    if gradients != NO_GRADIENTS:
        host_targets.append(Target(measure="over eager", at_least=1 / 1.3, method="host: forward + backward"))

    def arguments(device: torch.device, dtype: torch.dtype, case: Case) -> Arguments:
        return tuple(torch.randn(case.sizes, device=device, dtype=dtype) for _ in range(inputs))

    def moved(tensors: int) -> Callable[[Case, torch.dtype], int]:
        return lambda case, dtype: tensors * math.prod(case.sizes) * dtype.itemsize

    forward = Benchmark(
        name="forward",
        cases=cases,
        arguments=arguments,
        eager=eager,
        bytes=moved(inputs + 1),
        draw=vector,
        host=cases[0],
        gradients=gradients,
        targets=(*targets, *host_targets),
    )
    if backward_moves == 0:
        return (forward,)
    backward = Benchmark(
        name="backward",
        cases=cases,
        arguments=arguments,
        eager=eager,
        bytes=moved(backward_moves),
        draw=vector,
        backward=True,
        targets=targets,
    )
    return forward, backward


_ROW_SIZES = (
    *((131_072, 256), (32_768, 1024), (16_384, 4096), (4096, 16_384), (2048, 65_536), (1024, 262_144)),
    *((10_007, 1000), (4096, 12_289)),  # no multiple of a vector, or of a warp's vectors
)
ROW_CASES = tuple(Case(f"{rows} × {columns}", (rows, columns)) for rows, columns in _ROW_SIZES)
ROW_HOST = Case("64 × 256", (64, 256))


def rows_benchmarks(
    eager: Callable[..., Any],
    *,
    inputs: int = 1,
    moves: int = 2,
    backward_moves: int = 3,
    arguments: Callable[[torch.device, torch.dtype, Case], Arguments] | None = None,
    call: Callable[..., Any] = _plain_call,
    cases: tuple[Case, ...] = ROW_CASES,
    peers: str | None = None,
    training_moves: int | None = None,
) -> tuple[Benchmark, ...]:
    """Benchmarks of the forward and the backward pass of an op on rows, from 131,072 × 256 to 1,024 × 262,144.

    Args:
        eager: PyTorch's own op.
        inputs: how many tensors of one size it takes; they are standard normal.
        moves: how many tensors of that size a forward pass must read and write. Tensors with one number for each row or
            column are not counted: they are less than 1% of it.
        backward_moves: the same for a backward pass, including the upstream gradient.
        arguments: returns inputs that are not ``inputs`` tensors of one size.
        call: as of :class:`Benchmark`.
        cases: numbers of rows and columns.
        peers: as of :class:`Benchmark`.
        training_moves: the same for forward and backward together, for an op that computes its gradient in the forward
            pass: both are then measured together instead of separately.
    """

    def matrices(device: torch.device, dtype: torch.dtype, case: Case) -> Arguments:
        return tuple(torch.randn(case.sizes, device=device, dtype=dtype) for _ in range(inputs))

    def moved(tensors: int) -> Callable[[Case, torch.dtype], int]:
        return lambda case, dtype: tensors * math.prod(case.sizes) * dtype.itemsize

    def targets(of_roofline: float) -> tuple[Target, ...]:
        return (
            Target(measure="roofline", at_least=of_roofline),
            Target(measure="over eager", at_least=NO_SLOWER),
            Target(measure="over torch.compile", at_least=NO_SLOWER),
            *([] if peers is None else [Target(measure="over the fastest peer", at_least=NO_SLOWER)]),
        )

    def benchmark(name: str, tensors: int, **more: Any) -> Benchmark:
        return Benchmark(
            name=name,
            cases=cases,
            arguments=matrices if arguments is None else arguments,
            eager=eager,
            bytes=moved(tensors),
            draw=matrix,
            call=call,
            peers=peers,
            **more,
        )

    host = tuple(
        Target(measure="over eager", at_least=1 / 1.3, method=f"host: {part}")
        for part in ("no grad", "forward + backward")
    )
    forward = benchmark("forward", moves, host=ROW_HOST, targets=(*targets(0.95), *host))
    if training_moves is not None:
        return forward, benchmark("training", training_moves, training=True, targets=targets(0.90))
    return forward, benchmark("backward", backward_moves, backward=True, targets=targets(0.90))
