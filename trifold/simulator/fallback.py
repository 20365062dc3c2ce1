"""Runs functions whose source the rewriter cannot change: each CUDA thread runs them on a separate stack (greenlet).

Only waiting needs that: a barrier in such a function switches to the scheduler. Arithmetic remains Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from types import CodeType, FunctionType
from typing import Any

from greenlet import getcurrent, greenlet

from trifold.errors import LaunchError


def as_generator(function: Callable[..., Any]) -> Callable[..., Generator[Any, Any, Any]]:
    """A generator function that runs ``function`` and yields the operations at which it waits."""

    def run(*arguments: Any, **keywords: Any) -> Generator[Any, Any, Any]:
        thread = greenlet(function)
        thread.is_cuda_thread = True
        request = thread.switch(*arguments, **keywords)
        try:
            while not thread.dead:
                reply = yield request
                thread.parent = getcurrent()
                request = thread.switch(reply)
        finally:
            if not thread.dead:  # the launch has ended early
                thread.parent = getcurrent()
                thread.throw()
        return request

    return run


def in_thread() -> bool:
    """Whether the caller runs on a CUDA thread's separate stack."""
    return getattr(getcurrent(), "is_cuda_thread", False)


def switch(request: Any) -> Any:
    """Wait, in a device function that is called outside rewritten code.

    Raises:
        LaunchError: the caller has no separate stack.
    """
    thread = getcurrent()
    if not in_thread():
        raise LaunchError(
            "a barrier or warp operation is called where the simulator cannot switch to another thread",
            "call it, or the device function that calls it, by its name in the kernel",
        )
    return thread.parent.switch(request)


def drive(generator: Generator[Any, Any, Any]) -> Any:
    """Runs a rewritten device function that waits, on the stack of the calling thread."""
    reply = None
    while True:
        try:
            request = generator.send(reply)
        except StopIteration as end:
            return end.value
        reply = switch(request)


def might_wait(
    function: FunctionType,
    waits: Callable[[Any], bool],
    device_function: Callable[[Any], FunctionType | None],
    waiting_names: frozenset[str],
) -> bool:
    """Whether an unreadable function may wait, judging by the names in its code."""
    seen: set[FunctionType] = set()
    queue = [function]
    while queue:
        current = queue.pop()
        if current in seen:
            continue
        seen.add(current)
        names = set(_names(current.__code__))
        if names & waiting_names:
            return True
        cells = dict(zip(current.__code__.co_freevars, current.__closure__ or (), strict=True))
        for name in names:
            value = cells[name].cell_contents if name in cells else current.__globals__.get(name)
            if waits(value):
                return True
            if (called := device_function(value)) is not None:
                queue.append(called)
    return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class Returned:
    """An iterator that ends at once and returns a value, for ``yield from``."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __iter__(self) -> Returned:
        return self

    def __next__(self) -> Any:
        raise StopIteration(self._value)
