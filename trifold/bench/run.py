"""Measures the benchmarks of one op, case by case."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch._functorch.config as functorch_config

from trifold.bench.entrants import Entrant, Pass, competitor, entrants
from trifold.bench.roofline import roofline
from trifold.bench.rows import ROOFLINE, Row, with_ratios
from trifold.bench.timing import Competitor, Failure, Method, Result, Rotation, measure, rotation
from trifold.cells import Device
from trifold.spec.benchmark import Benchmark, Case

CPU_BYTES = 1 << 28  # larger cases are left to a GPU

HOST_PASSES: dict[str, Pass] = {
    "host: no grad": "plain",
    "host: forward": "forward",
    "host: forward + backward": "forward + backward",
}


@dataclass(frozen=True)
class Task:
    """One case of one benchmark, timed by one method."""

    op: str
    benchmark: Benchmark
    case: Case
    dtype: torch.dtype
    method: str

    @property
    def label(self) -> str:
        return f"{self.op} {self.benchmark.name} {dtype_name(self.dtype)} {self.method} {self.case.label}"


@dataclass(frozen=True)
class Machine:
    """Where and how long to measure.

    Attributes:
        device: of the inputs.
        seconds: for the readings of one case by one method, all competitors together, about.
        compiled: whether torch.compile competes.
    """

    device: torch.device
    seconds: float = 0.25
    compiled: bool = True

    @property
    def l2_bytes(self) -> int:
        return int(torch.cuda.get_device_properties(self.device).L2_cache_size) if self.device.type == "cuda" else 0


def tasks(op: str, benchmark: Benchmark, device: Device, *, quick: bool) -> Iterator[Task]:
    """What there is to measure: each case in each dtype by each method, then the host's time of the small case.

    ``quick`` leaves the first, the middle and the last case.
    """
    cases = benchmark.cases
    if quick and len(cases) > 3:
        cases = (cases[0], cases[len(cases) // 2], cases[-1])
    methods: Sequence[str] = benchmark.methods if device == "cuda" else ("cpu",)
    for dtype in benchmark.dtypes:
        for method in methods:
            for case in cases:
                if device == "cuda" or benchmark.bytes(case, dtype) <= CPU_BYTES:
                    yield Task(op, benchmark, case, dtype, method)
    if benchmark.host is not None:
        for name, which in HOST_PASSES.items():
            if which == "plain" or benchmark.differentiable:
                yield Task(op, benchmark, benchmark.host, benchmark.dtypes[0], name)


def run(task: Task, implementations: Mapping[str, Entrant], machine: Machine) -> list[Row]:
    """Time one task: the roofline's ways and all entrants in turns, each against the others."""
    moved = task.benchmark.bytes(task.case, task.dtype)
    host = task.method in HOST_PASSES
    method = _method(task.method, machine.device)
    turns = rotation(moved, machine.l2_bytes) if method == "graph" else Rotation(1, 1)
    which = HOST_PASSES.get(task.method, "backward" if task.benchmark.backward else "plain")

    contenders = entrants(task.benchmark, implementations, compiled=machine.compiled)
    try:
        inputs = [task.benchmark.arguments(machine.device, task.dtype, task.case) for _ in range(turns.sets)]
    except Exception as error:  # the spec's own mistake, or too little memory for this case
        reason = f"its arguments cannot be made: {Failure.of(error).reason}"
        return [_not_run(task, moved, entrant.name, reason, failed=True) for entrant in contenders]
    able = {e.name: e for e in contenders if e.at_most is None or moved <= e.at_most}
    ways = {} if host else roofline(task.benchmark.roofline, moved, machine.device, turns.sets)

    competitors: dict[str, Competitor] = {f"{ROOFLINE}: {name}": way for name, way in ways.items()}
    competitors |= {name: competitor(entrant, inputs, which) for name, entrant in able.items()}
    # A compiled backward pass may otherwise reuse its saved tensors' memory, and refuses to run twice.
    with functorch_config.patch(donated_buffer=False):
        results = measure(method, competitors, calls=turns.calls, seconds=machine.seconds)

    rows = [_best_way(task, moved, {name: results[f"{ROOFLINE}: {name}"] for name in ways})] if ways else []
    for entrant in contenders:
        if entrant.name in results:
            rows.append(_row(task, moved, entrant.name, results[entrant.name]))
        else:
            reason = f"moves more than {entrant.at_most} bytes, which takes a simulator too long"
            rows.append(_not_run(task, moved, entrant.name, reason))
    del competitors, inputs
    _release(machine.device)
    return with_ratios(rows)


def _method(name: str, device: torch.device) -> Method:
    if device.type == "cpu":
        return "cpu"
    return "host" if name in HOST_PASSES else "events" if name == "events" else "graph"


def _best_way(task: Task, moved: int, ways: dict[str, Result]) -> Row:
    timed = {name: result for name, result in ways.items() if not isinstance(result, Failure)}
    if not timed:
        return _row(task, moved, ROOFLINE, next(iter(ways.values())))
    best = min(timed, key=lambda name: timed[name].median)
    return _row(task, moved, ROOFLINE, timed[best], reason=best)


def _row(task: Task, moved: int, name: str, result: Result, reason: str = "") -> Row:
    if isinstance(result, Failure):
        return _not_run(task, moved, name, result.reason, failed=True)
    return replace(
        _not_run(task, moved, name, reason),
        outcome="slow" if result.slow else "measured",
        seconds=result.median,
        low=result.low,
        high=result.high,
        samples=result.samples,
    )


def _not_run(task: Task, moved: int, name: str, reason: str, *, failed: bool = False) -> Row:
    return Row(
        op=task.op,
        benchmark=task.benchmark.name,
        case=task.case.label,
        dtype=dtype_name(task.dtype),
        method=task.method,
        competitor=name,
        bytes=moved,
        outcome="failed" if failed else "not run",
        reason=reason,
    )


def _release(device: torch.device) -> None:
    """Give the case's buffers back: the next one has others, and a graph's memory stays with its pool."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
