"""Four ways to time a call, and what each includes.

``graph``
    A CUDA graph of many calls, replayed; CUDA events around each replay. Includes the kernels and the gaps between
    them on the GPU, nothing of the host. The calls rotate over several buffer sets (see :func:`rotation`).
``events``
    CUDA events around one call on an idle GPU. Includes the host's time between the first launch and the last one,
    and so the overhead of several small kernels; this is what most articles report.
``host``
    Wall time until the call returns, while the GPU still works. Includes no kernel; the queue is kept short.
``cpu``
    Wall time of a call on CPU tensors.

In each, the competitors are timed round-robin (A B C A B C ...) in one process, so that a drift of the clock affects
all of them. A turn by ``events``, ``host`` or ``cpu`` begins with calls that are discarded, so that the previous
competitor's after-effects (cold caches, a processor in a deeper sleep) are not counted. A competitor that raises fails
alone; one whose call takes longer than ``slow_after`` seconds is read once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from trifold.bench.interval import median

Method = Literal["graph", "events", "host", "cpu"]
Thunk = Callable[[], object]
Competitor = Callable[[], Sequence[Thunk]]  # prepares one call per buffer set; both may raise

GRAPH_CALLS = 512  # at most, in one graph
GRAPH_BYTES = 8 << 30  # moved by a graph, about: 2 ms on an H200, long compared to a replay's launch
GRAPH_SECONDS = 4e-3  # for slow competitors, whose graphs hold fewer calls to take about this long
EVENTS_A_TURN = 5  # consecutive readings of one competitor
HOST_CALLS = 20  # per batch: far below the 1,024 launches that the driver queues before it blocks


@dataclass(frozen=True)
class Timing:
    """Seconds per call.

    Attributes:
        readings: in the order in which they were taken: the k-th ones of all competitors are of one round.
        slow: it was read only once, because a call takes so long.
        prepared: seconds until the first call was done, which compiles.
    """

    readings: tuple[float, ...]
    slow: bool = False
    prepared: float | None = None

    @property
    def median(self) -> float:
        return median(self.readings).value


@dataclass(frozen=True)
class Failure:
    """A competitor could not be timed, with the reason in one line."""

    reason: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        lines = str(error).strip().splitlines()
        return cls(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)


Result = Timing | Failure


@dataclass(frozen=True)
class Rotation:
    """The number of buffer sets, and of calls in one graph (a multiple of the sets)."""

    sets: int
    calls: int


def rotation(bytes_per_call: int, l2_bytes: int) -> Rotation:
    """Enough buffer sets to exceed twice the L2, so that a call finds none of its data there.

    At most :data:`GRAPH_CALLS`: calls so small that these fit into the L2 are bound by the launch, not by memory.
    """
    size = max(bytes_per_call, 1)
    sets = min(GRAPH_CALLS, 2 * l2_bytes // size + 1)
    calls = min(GRAPH_CALLS, max(sets, GRAPH_BYTES // size))
    return Rotation(sets, calls // sets * sets)


def fewer_calls(calls: int, sets: int, seconds: float) -> int:
    """The number of calls for a graph, if ``calls`` of them over ``sets`` buffer sets took ``seconds``.

    ``calls``, unless that is more than twice as long as needed: a shorter graph suffices for slow calls, and GPU time
    is expensive.
    """
    if seconds <= 2 * GRAPH_SECONDS:
        return calls
    return max(1, int(calls * GRAPH_SECONDS / seconds) // sets) * sets


def measure(
    method: Method,
    competitors: Mapping[str, Competitor],
    *,
    calls: int = 1,
    seconds: float = 0.25,
    slow_after: float = 0.2,
) -> dict[str, Result]:
    """Time the competitors by ``method``, round-robin.

    Args:
        method: see the module's docstring.
        competitors: for each name a function that prepares one call per buffer set.
        calls: the number in one CUDA graph; only used by ``graph``.
        seconds: of all readings together, approximately.
        slow_after: a competitor whose warm call takes longer, in seconds, is read once.

    Returns:
        A :class:`Timing` or a :class:`Failure` for each name, in the given order.
    """
    results: dict[str, Result] = dict.fromkeys(competitors, Failure("not measured"))
    readers: dict[str, _Reader] = {}
    prepared: dict[str, float] = {}
    pool = torch.cuda.graph_pool_handle() if method == "graph" else None
    with _place(method):
        for name, competitor in competitors.items():
            try:
                on_gpu = method != "cpu" and torch.cuda.is_available()
                thunks, prepared[name] = _prepared(competitor, on_gpu=on_gpu)
                warm = _warm(thunks, on_gpu=on_gpu)
                if warm > slow_after:
                    results[name] = Timing((warm,), slow=True, prepared=prepared[name])
                else:
                    readers[name] = _reader(method, thunks, calls, pool)
            except Exception as error:  # any exception of a competitor is its result
                results[name] = Failure.of(error)
                if pool is not None:
                    pool = torch.cuda.graph_pool_handle()  # a failed capture may still hold the previous one
        for name, failure in _take_turns(readers, method, seconds).items():
            results[name] = failure
            del readers[name]
        for name, reader in readers.items():
            results[name] = Timing(tuple(reader.readings()), prepared=prepared[name])
    return results


def _prepared(competitor: Competitor, *, on_gpu: bool) -> tuple[Sequence[Thunk], float]:
    """The calls of a competitor, the first of them done, and the seconds that this took."""
    started = time.perf_counter()
    thunks = competitor()
    thunks[0]()
    _synchronize(on_gpu)
    return thunks, time.perf_counter() - started


def _warm(thunks: Sequence[Thunk], *, on_gpu: bool) -> float:
    """Call until everything is allocated; return the seconds of one more call."""
    thunks[-1]()
    _synchronize(on_gpu)
    started = time.perf_counter()
    thunks[0]()
    _synchronize(on_gpu)
    return time.perf_counter() - started


def _synchronize(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()


@contextmanager
def _place(method: Method) -> Iterator[None]:
    """A separate stream for ``graph``: the default stream cannot be captured, and autograd runs a backward pass on the
    stream of its forward pass."""
    if method != "graph":
        yield
        return
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        yield
    torch.cuda.synchronize()


def _take_turns(readers: Mapping[str, _Reader], method: Method, seconds: float) -> dict[str, Failure]:
    """Read all competitors round-robin until ``seconds`` have passed (at least 10 rounds, at most 200)."""
    least, most = 10, 200
    chunk = 5 if method == "graph" else 1
    failures: dict[str, Failure] = {}
    started = time.perf_counter()
    for done in range(0, most, chunk):
        alive = {name: reader for name, reader in readers.items() if name not in failures}
        if not alive or (done >= least and time.perf_counter() - started > seconds):
            break
        if method == "graph":  # work in the queue, so that the first event does not wait for the first launch
            list(alive.values())[-1].lead()
        for _ in range(chunk):
            for name, reader in alive.items():
                if name not in failures:
                    try:
                        reader.read()
                    except Exception as error:
                        failures[name] = Failure.of(error)
        if method == "graph":
            torch.cuda.synchronize()
    return failures


class _Reader(Protocol):
    def lead(self) -> None: ...
    def read(self) -> None: ...
    def readings(self) -> list[float]: ...


def _reader(method: Method, thunks: Sequence[Thunk], calls: int, pool: Any) -> _Reader:
    if method == "graph":
        replay = _Replay(thunks, calls, pool)
        fewer = fewer_calls(calls, len(thunks), replay.seconds)
        return replay if fewer >= calls else _Replay(thunks, fewer, pool)
    if method == "events":
        return _Events(thunks[0])
    if method == "host":
        return _Wall(thunks[0], HOST_CALLS, on_gpu=torch.cuda.is_available())
    return _Wall(thunks[0], _autorange(thunks[0]), on_gpu=False)


class _Replay:
    """A CUDA graph of ``calls`` calls, captured on the current stream.

    The graphs of all competitors share one memory pool: they run one after the other, and nothing reads their outputs.
    ``seconds`` is the wall-clock time of its first replay.
    """

    def __init__(self, thunks: Sequence[Thunk], calls: int, pool: Any) -> None:
        self.thunks = thunks  # the graph reads their tensors
        self.calls = calls
        self.graph = torch.cuda.CUDAGraph()
        self.events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        outputs: deque[object] = deque(maxlen=len(thunks))  # as many outputs in rotation as there are inputs
        torch.cuda.synchronize()
        self.graph.capture_begin(pool=pool)
        try:
            for i in range(calls):
                outputs.append(thunks[i % len(thunks)]())
        except BaseException:
            _abandon(self.graph, pool)
            raise
        self.graph.capture_end()
        torch.cuda.synchronize()
        started = time.perf_counter()
        self.graph.replay()
        torch.cuda.synchronize()
        self.seconds = time.perf_counter() - started

    def lead(self) -> None:
        self.graph.replay()

    def read(self) -> None:
        start, end = _events()
        start.record()
        self.graph.replay()
        end.record()
        self.events.append((start, end))

    def readings(self) -> list[float]:
        return [start.elapsed_time(end) * 1e-3 / self.calls for start, end in self.events]


def _events() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    make: Callable[..., torch.cuda.Event] = torch.cuda.Event
    return make(enable_timing=True), make(enable_timing=True)


def _abandon(graph: torch.cuda.CUDAGraph, pool: Any) -> None:
    """End a capture that is already invalid.

    torch then removes the stream from the capture and raises, but leaves the memory pool and its generator in the
    capture: nothing else could use that pool, or draw random numbers.
    """
    try:
        graph.capture_end()
    except RuntimeError:
        device = torch.cuda.current_device()
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(device, pool)
        generator = torch.cuda.default_generators[device]
        generator.graphsafe_set_state(generator.clone_state())


class _Events:
    """One call between two CUDA events, with an idle GPU before it."""

    def __init__(self, thunk: Thunk) -> None:
        self.thunk = thunk
        self.seconds: list[float] = []
        self.start, self.end = _events()

    def lead(self) -> None:
        self.thunk()

    def read(self) -> None:
        self.thunk()
        for _ in range(EVENTS_A_TURN):
            torch.cuda.synchronize()
            self.start.record()
            self.thunk()
            self.end.record()
            self.end.synchronize()
            self.seconds.append(self.start.elapsed_time(self.end) * 1e-3)

    def readings(self) -> list[float]:
        return self.seconds


class _Wall:
    """A batch of ``calls`` calls by the wall clock; a GPU is idle before it and is not waited for within."""

    def __init__(self, thunk: Thunk, calls: int, *, on_gpu: bool) -> None:
        self.thunk, self.calls, self.on_gpu = thunk, calls, on_gpu
        self.seconds: list[float] = []

    def lead(self) -> None:
        self.thunk()

    def read(self) -> None:
        thunk = self.thunk
        for _ in range(2):  # the first is discarded
            _synchronize(self.on_gpu)
            started = time.perf_counter()
            for _ in range(self.calls):
                thunk()
            seconds = (time.perf_counter() - started) / self.calls
        self.seconds.append(seconds)
        _synchronize(self.on_gpu)

    def readings(self) -> list[float]:
        return self.seconds


def _autorange(thunk: Thunk, least: float = 2e-3) -> int:
    """How many calls take ``least`` seconds, by doubling: reading the clock costs about 50 ns."""
    calls = 1
    while True:
        started = time.perf_counter()
        for _ in range(calls):
            thunk()
        if time.perf_counter() - started >= least or calls >= 1 << 16:
            return calls
        calls *= 2
