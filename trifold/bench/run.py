"""Measures the benchmarks of one op, case by case."""

from __future__ import annotations

import functools
import gc
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import torch
import torch._functorch.config as functorch_config

from trifold.bench import interval
from trifold.bench.entrants import Entrant, competitor, entrants
from trifold.bench.peers import Pass
from trifold.bench.roofline import roofline
from trifold.bench.rows import DEFAULT_RIVALS, ROOFLINE, Row, with_ratios
from trifold.bench.timing import Competitor, Failure, Method, Result, Rotation, Timing, measure, rotation
from trifold.cells import Device
from trifold.spec.benchmark import Benchmark, Case

CPU_BYTES = 1 << 28  # larger cases are left to a GPU

# Readings of the host's time vary more than a GPU's: a backward pass waits for another thread, twice.
HOST_LONGER = 6

IMPLAUSIBLE = 2.0  # times the memory's rate: anything that fast has not done the work

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

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """The :attr:`trifold.bench.rows.Row.key` of its rows."""
        return self.op, self.benchmark.name, dtype_name(self.dtype), self.method, self.case.label

    @property
    def which(self) -> Pass:
        """The pass that is timed."""
        if self.method in HOST_PASSES:
            return HOST_PASSES[self.method]
        if self.benchmark.training:
            return "forward + backward"
        return "backward" if self.benchmark.backward else "plain"

    @property
    def without_libraries(self) -> str:
        """Why other libraries cannot compete; empty if they can."""
        if self.method in HOST_PASSES:
            return "its kernels are timed, not its host code"
        return "it needs a GPU" if self.method == "cpu" else ""


@dataclass(frozen=True)
class Machine:
    """The device of a measurement, and its duration.

    Attributes:
        device: of the inputs.
        seconds: for all readings of one case by one method, approximately; for the host's time, HOST_LONGER times as
            long.
        against: the competitors, from :data:`trifold.bench.rows.RIVALS`.
        fatal: why a competitor must not be called in a task, by the task's key and its name: it would end this process.
    """

    device: torch.device
    seconds: float = 0.25
    against: Collection[str] = DEFAULT_RIVALS
    fatal: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def l2_bytes(self) -> int:
        return int(torch.cuda.get_device_properties(self.device).L2_cache_size) if self.device.type == "cuda" else 0


@dataclass(frozen=True)
class Selection:
    """The cases to measure.

    Attributes:
        text: contained in a task's label.
        shapes: the sizes of the cases; none: all.
        dtypes: none: all that a benchmark has.
        methods: of timing, "host" for all that begin with it; none: all.
        quick: only the first, the middle and the last case of those selected.
        part: (2, 4): of those selected the second, the sixth and so on; the host's time belongs to the first part.
    """

    text: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    quick: bool = False
    part: tuple[int, int] = (1, 1)

    @property
    def described(self) -> str:
        """The selection, for a message; empty if nothing was selected."""
        shapes = ["x".join(map(str, sizes)) for sizes in self.shapes]
        wanted = [f"'{word}'" for word in (self.text, *shapes, *self.dtypes, *self.methods) if word]
        return f" with {', '.join(wanted)}" if wanted else ""

    def takes(self, task: Task) -> bool:
        return self.text in task.label and (not self.methods or task.method.partition(":")[0] in self.methods)

    def cases(self, benchmark: Benchmark) -> tuple[Case, ...]:
        cases = tuple(case for case in benchmark.cases if not self.shapes or case.sizes in self.shapes)
        if self.quick and len(cases) > 3:
            cases = cases[0], cases[len(cases) // 2], cases[-1]
        first, step = self.part
        return cases[first - 1 :: step]

    def host(self, benchmark: Benchmark) -> Case | None:
        """The case for which the host's time is measured."""
        case = benchmark.host if self.part[0] == 1 else None
        return case if case is not None and (not self.shapes or case.sizes in self.shapes) else None

    def dtypes_of(self, benchmark: Benchmark) -> tuple[torch.dtype, ...]:
        return tuple(dtype for dtype in benchmark.dtypes if not self.dtypes or dtype_name(dtype) in self.dtypes)


EVERYTHING = Selection()


def tasks(op: str, benchmark: Benchmark, device: Device, selection: Selection) -> Iterator[Task]:
    """The tasks: each case in each dtype by each method, then the host's time for the small case."""
    for task in _all_tasks(op, benchmark, device, selection):
        if selection.takes(task):
            yield task


def _all_tasks(op: str, benchmark: Benchmark, device: Device, selection: Selection) -> Iterator[Task]:
    methods: Sequence[str] = benchmark.methods if device == "cuda" else ("cpu",)
    dtypes = selection.dtypes_of(benchmark)
    for dtype in dtypes:
        for method in methods:
            for case in selection.cases(benchmark):
                if device == "cuda" or benchmark.bytes(case, dtype) <= CPU_BYTES:
                    yield Task(op, benchmark, case, dtype, method)
    host = selection.host(benchmark)
    if host is not None and dtypes:
        for name, which in HOST_PASSES.items():
            if which == "plain" or benchmark.differentiable:
                yield Task(op, benchmark, host, dtypes[0], name)


def run(task: Task, implementations: Mapping[str, Entrant], machine: Machine) -> list[Row]:
    """Time one task: the roofline's ways and all entrants round-robin."""
    moved = task.benchmark.bytes(task.case, task.dtype)
    host = task.method in HOST_PASSES
    method = _method(task.method, machine.device)
    turns = rotation(moved, machine.l2_bytes) if method == "graph" else Rotation(1, 1)

    contenders = entrants(task.benchmark, implementations, machine.against, without=task.without_libraries)
    try:
        inputs = [task.benchmark.arguments(machine.device, task.dtype, task.case) for _ in range(turns.sets)]
    except Exception as error:  # the spec's own error, or too little memory for this case
        reason = f"its arguments cannot be made: {Failure.of(error).reason}"
        return [_not_run(task, moved, entrant.name, reason, failed=True) for entrant in contenders]
    contenders = [entrant.for_arguments(inputs[0]) for entrant in contenders]
    fatal = {e.name: machine.fatal[*task.key, e.name] for e in contenders if (*task.key, e.name) in machine.fatal}
    able = {e.name: e for e in contenders if not e.absent and (e.at_most is None or moved <= e.at_most)}
    ways = {} if host else roofline(task.benchmark.roofline, moved, machine.device, turns.sets)

    competitors: dict[str, Competitor] = {f"{ROOFLINE}: {name}": way for name, way in ways.items()}
    competitors |= {
        name: competitor(entrant, inputs, task.which, task.benchmark.gradients, task.benchmark.parameters)
        for name, entrant in able.items()
        if name not in fatal
    }
    with repeatable():
        seconds = machine.seconds * (HOST_LONGER if host else 1)
        results = measure(method, competitors, calls=turns.calls, seconds=seconds)
    results |= {name: Failure(reason) for name, reason in fatal.items()}

    del competitors, inputs
    release(machine.device)
    best = _Best.of({name: results[f"{ROOFLINE}: {name}"] for name in ways})
    if method == "graph":
        results = {name: _plausible(result, best.result) for name, result in results.items()}
    rows = [_row(task, moved, ROOFLINE, best.result, best.way)] if best.result is not None else []
    rows += [_contender_row(task, moved, entrant, results.get(entrant.name)) for entrant in contenders]
    timed = {**results, ROOFLINE: best.result}
    return with_ratios(rows, {name: one.readings for name, one in timed.items() if isinstance(one, Timing)})


def repeatable() -> AbstractContextManager[None]:
    """A compiled backward pass may otherwise reuse its saved tensors' memory, and then refuses to run twice."""
    patched: AbstractContextManager[None] = functorch_config.patch(donated_buffer=False)
    return patched


def _method(name: str, device: torch.device) -> Method:
    if device.type == "cpu":
        return "cpu"
    return "host" if name in HOST_PASSES else "events" if name == "events" else "graph"


@dataclass(frozen=True)
class _Best:
    """The fastest of the roofline's ways, or the first one's failure; no result if nothing moves."""

    result: Result | None = None
    way: str = ""

    @classmethod
    def of(cls, ways: Mapping[str, Result]) -> _Best:
        timed = {name: result for name, result in ways.items() if isinstance(result, Timing)}
        if timed:
            best = min(timed, key=lambda name: timed[name].median)
            return cls(timed[best], best)
        return cls(next(iter(ways.values())) if ways else None)


def _plausible(result: Result, best: Result | None) -> Result:
    """``result``, unless it is faster than memory: then its kernels are not in the timed graph."""
    if isinstance(result, Timing) and isinstance(best, Timing) and best.median > IMPLAUSIBLE * result.median:
        return Failure(f"{best.median / result.median:.0f} × the memory's rate: its kernels are not in the CUDA graph")
    return result


def _contender_row(task: Task, moved: int, entrant: Entrant, result: Result | None) -> Row:
    if result is not None:
        return _row(task, moved, entrant.name, result, entrant.note)
    late = f"moves more than {entrant.at_most} bytes, which takes a simulator too long"
    return _not_run(task, moved, entrant.name, entrant.absent or late)


def _row(task: Task, moved: int, name: str, result: Result, reason: str = "") -> Row:
    if isinstance(result, Failure):
        return _not_run(task, moved, name, result.reason, failed=True)
    estimate = interval.median(result.readings)
    return replace(
        _not_run(task, moved, name, reason),
        outcome="slow" if result.slow else "measured",
        seconds=estimate.value,
        low=estimate.low,
        high=estimate.high,
        samples=len(result.readings),
        prepared=result.prepared,
    )


def _not_run(task: Task, moved: int, name: str, reason: str, *, failed: bool = False) -> Row:
    return Row(
        op=task.op,
        benchmark=task.benchmark.name,
        case=task.case.label,
        sizes=task.case.sizes,
        dtype=dtype_name(task.dtype),
        method=task.method,
        competitor=name,
        bytes=moved,
        outcome="failed" if failed else "not run",
        reason=reason,
    )


def release(device: torch.device) -> None:
    """Free the case's buffers: the next one has others, and a graph's memory stays in its pool."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        _set_modules_aside()


@functools.cache
def _set_modules_aside() -> None:
    """Exempt the first case's imports from garbage collection, which would take 0.2 s after each case."""
    gc.freeze()


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
