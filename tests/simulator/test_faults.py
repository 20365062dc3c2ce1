"""A launch that fails: what its author sees, and that nothing is left of it."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.simulator.handwritten import here, launch
from trifold import KernelFault, _simulator
from trifold._simulator import blockIdx, threadIdx
from trifold.errors import LaunchError


class Exhausted(Exception):
    """An exception that a message alone does not make."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)


def raises(error: BaseException, *, waits: bool = True) -> Callable[[], Any]:
    """A kernel that raises in thread (1, 2, 0) of block (3, 0, 0), while others wait or before they run."""

    def kernel() -> Any:
        if (*threadIdx, *blockIdx) == (1, 2, 0, 3, 0, 0):
            raise error
        if waits:
            yield here()

    return kernel


def raised_by(kernel: Callable[[], Any], kind: type[BaseException] = BaseException) -> pytest.ExceptionInfo[Any]:
    with pytest.raises(kind) as caught:
        launch(kernel, grid=5, block=(4, 4))
    return caught


# What its author sees -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("too small"), "tid=[1, 2, 0] ctaid=[3, 0, 0]: too small"),
        (RuntimeError(), "tid=[1, 2, 0] ctaid=[3, 0, 0]"),
        (KeyError("k"), "\"tid=[1, 2, 0] ctaid=[3, 0, 0]: 'k'\""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_keeps_its_type_and_names_its_thread(error: Exception, text: str) -> None:
    error.__cause__ = OSError("first")
    error.detail = 5  # type: ignore[attr-defined]
    error.add_note("a note")
    caught = raised_by(raises(error))
    assert type(caught.value) is type(error)
    assert str(caught.value) == text
    assert caught.value.__cause__ is error.__cause__
    assert (caught.value.__notes__, vars(caught.value)["detail"]) == (["a note"], 5)
    assert caught.traceback[-1].name == "kernel"


def test_an_exception_that_a_message_does_not_make_gets_a_note() -> None:
    error = Exhausted(3, "memory")
    caught = raised_by(raises(error))
    assert caught.value is error
    assert error.args == (3, "memory")
    assert error.__notes__ == ["in the CUDA thread tid=[1, 2, 0] ctaid=[3, 0, 0]"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=lambda e: type(e).__name__)
def test_what_is_not_about_the_kernel_passes_as_it_is(error: BaseException) -> None:
    assert raised_by(raises(error)).value is error


def test_the_seam_leaves_only_the_users_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel() -> Any:
        yield here()
        helper()

    def helper() -> None:
        raise ValueError

    scope: dict[str, Any] = {"launch": launch, "kernel": kernel}
    source = "def call(self, *arguments):\n    return inner()\n\ndef inner():\n    launch(kernel, block=3)\n"
    exec(compile(source, "/elsewhere/engine/launch.py", "exec"), scope)

    class Kernel:
        __call__ = _simulator.seam(scope["call"])

    def frames() -> list[str]:
        with pytest.raises(ValueError, match="tid") as caught:
            Kernel()()
        return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

    assert frames() == ["frames", "launch", "kernel", "helper"]
    monkeypatch.setenv("TRIFOLD_ENGINE_TRACEBACK", "1")
    assert frames() == ["frames", "call", "inner", "launch", "kernel", "helper"]


def test_the_seam_passes_arguments_and_results() -> None:
    class Kernel:
        __call__ = _simulator.seam(lambda self, *values, **named: (self, values, named))

    kernel = Kernel()
    assert kernel(1, 2, key=3) == (kernel, (1, 2), {"key": 3})
    assert Kernel.__call__(4) == (4, (), {})


def test_a_debugger_finds_the_frame_that_launched() -> None:
    seen = []

    def kernel() -> Any:
        seen.append((sys._getframe().f_back, _simulator.launcher()))
        yield here()
        seen.append((sys._getframe().f_back, _simulator.launcher()))

    launch(kernel, block=2)
    assert all(back is launcher is not None for back, launcher in seen)


# Nothing is left ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_a_failed_launch_ends_its_threads_and_the_next_one_works(seed: int) -> None:
    ended: list[int] = []
    ran: list[int] = []

    def fails() -> Any:
        try:
            yield here()
            if threadIdx.x == 2:
                raise ValueError
            yield here()
        finally:
            ended.append(threadIdx.x)

    def works() -> Any:
        yield here()
        ran.append(threadIdx.x)

    for _ in range(3):
        with pytest.raises(ValueError, match="tid"):
            launch(fails, block=5, seed=seed, checks=_simulator.CHECK_RACE)
        assert sorted(ended) == list(range(5))
        launch(works, block=4, seed=seed)
        assert sorted(ran) == list(range(4))
        ended.clear()
        ran.clear()
    assert _simulator.current() is None


def kernels_that_fail() -> dict[str, Callable[..., Any]]:
    def user_error(value: object) -> Any:
        yield here()
        raise ValueError(value)

    def barrier_divergence(value: object) -> Any:
        if threadIdx.x:
            yield here()
        yield here()

    def undefined_shuffle(value: object) -> Any:
        got = yield here(), _simulator.OP_SHFL, 1 << threadIdx.x, threadIdx.x, 31
        if got:
            yield here()

    def rendezvous(value: object) -> Any:
        yield here(), _simulator.OP_SHFL_UP, 0b11 if threadIdx.x else 0xFF, 1.5, 1

    def wrong_operand(value: object) -> Any:
        yield here(), _simulator.OP_SHFL, 0xFF, value, 0

    def wrong_arguments() -> Any:
        yield here()

    return {kernel.__name__: kernel for kernel in locals().values()}


@pytest.mark.parametrize("kernel", kernels_that_fail().values(), ids=kernels_that_fail())
def test_a_failed_launch_leaks_nothing(kernel: Callable[..., Any]) -> None:
    value = object()

    def fail() -> None:
        with suppress(ValueError, TypeError, KernelFault):
            launch(kernel, value, block=8, grid=2, checks=_simulator.CHECK_RACE)
            raise AssertionError

    def blocks_of_memory() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    def growth(launches: int) -> int:
        before = blocks_of_memory()
        for _ in range(launches):
            fail()
        return blocks_of_memory() - before

    fail()
    references = sys.getrefcount(value)
    # A leak shows each time; what else this process does, now and then. Free lists fill up: one in two launches.
    assert min(growth(200) for _ in range(4)) < 100
    assert sys.getrefcount(value) == references


def test_threads_that_run_to_their_end_leak_nothing() -> None:
    value = float("1.5")

    def kernel(value: Any) -> Any:
        for _ in range(3):
            got = yield here(), _simulator.OP_SHFL_XOR, 0xFFFFFFFF, value, 1
            assert got is value
            yield here(), _simulator.OP_SYNCTHREADS_COUNT, value

    references = sys.getrefcount(value)
    for seed in range(3):
        launch(kernel, value, block=64, grid=3, seed=seed)
    assert sys.getrefcount(value) == references


@pytest.mark.parametrize("waits", [True, False])
def test_control_c_stops_a_launch_at_once(waits: bool) -> None:
    def spins() -> Any:
        while True:
            yield here(), _simulator.OP_SYNCWARP

    def runs() -> None:
        while True:
            pass

    stops = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    stops.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        launch(spins if waits else runs, grid=10**6, block=64)
    assert time.monotonic() - begin < 10
    launch(lambda: None)


# Several launches at a time -------------------------------------------------------------------------------------------


def test_a_kernel_cannot_launch_another() -> None:
    def inner() -> None:
        raise AssertionError

    def outer() -> None:
        launch(inner)

    with pytest.raises(LaunchError, match=r"kernel inner is launched while another kernel runs"):
        launch(outer)
    launch(lambda: None)


def test_launches_of_several_python_threads_wait_for_each_other() -> None:
    running: set[int] = set()
    finished: list[int] = []

    def kernel(me: int) -> Any:
        running.add(me)
        time.sleep(0.0005)  # another Python thread may run
        assert running == {me}
        yield here()
        running.discard(me)
        yield here()

    def launches(me: int) -> None:
        for _ in range(5):
            launch(kernel, me, block=4)
            assert _simulator.current() is None
        finished.append(me)

    threads = [threading.Thread(target=launches, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(finished) == [0, 1, 2, 3]


# Code that was not rewritten ------------------------------------------------------------------------------------------


@pytest.fixture
def no_switch() -> Iterator[None]:
    before = _simulator.set_switch(None)
    yield
    _simulator.set_switch(before)


@pytest.mark.usefixtures("no_switch")
def test_a_barrier_in_code_that_was_not_rewritten_is_refused() -> None:
    def calls() -> None:
        _simulator.syncthreads()

    def calls_in_a_generator() -> Any:
        yield here()
        _simulator.shfl_sync(0xFFFFFFFF, 1, 0)

    with pytest.raises(RuntimeError, match=r"cuda\.syncthreads\(\) is called from code that the simulator could not"):
        launch(calls, block=2)
    with pytest.raises(RuntimeError, match=r"cuda\.shfl_sync\(\) is called from code that the simulator could not"):
        launch(calls_in_a_generator, block=2)
    launch(lambda: _simulator.nanosleep(100))


class Handmade:
    """A CUDA thread that is no generator; it waits once."""

    running: Handmade | None = None

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.requests: list[Any] = []

    def wait(self, request: Any) -> None:
        self.requests.append(request)

    def send(self, value: Any) -> Any:
        Handmade.running = self
        if self.requests:
            raise StopIteration
        self.function()
        return self.requests[0]

    def __next__(self) -> Any:
        return self.send(None)

    def __iter__(self) -> Handmade:
        return self


@pytest.mark.usefixtures("no_switch")
def test_the_switch_gets_what_a_rewritten_kernel_would_yield() -> None:
    ran: list[Handmade] = []

    def body() -> None:
        _simulator.syncthreads_count(True)
        ran.append(Handmade.running)  # type: ignore[arg-type]

    def kernel() -> Handmade:
        return Handmade(body)

    def switch(request: Any) -> None:
        assert Handmade.running is not None
        Handmade.running.wait(request)

    _simulator.set_switch(switch)
    _simulator.launch(kernel, True, "kernel", (1, 1, 1), (3, 1, 1), 0, (), 0, 0)
    assert _simulator.set_switch(None) is switch
    site, operation, predicate = ran[0].requests[0]
    assert (operation, predicate) == (_simulator.OP_SYNCTHREADS_COUNT, True)
    line = body.__code__.co_firstlineno + 1
    assert site == _simulator.register_site(__file__, line, "body")
    assert len(ran) == 3
