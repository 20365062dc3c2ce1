"""The place where ``trifold debug`` stops: a line of a CUDA thread, in a launch by certain functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from trifold import _simulator
from trifold.debug.sample import DebugError, NamedCall
from trifold.simulator import stepping
from trifold.simulator.coordinates import Coordinates, Place, described


@dataclass(frozen=True)
class Launch:
    """A launch that has been made."""

    kernel: str
    grid: Coordinates
    block: Coordinates

    @classmethod
    def running(cls, kernel: str) -> Launch:
        grid, block = _simulator.gridDim, _simulator.blockDim
        return cls(kernel, (grid.x, grid.y, grid.z), (block.x, block.y, block.z))

    @property
    def threads(self) -> int:
        x, y, z = self.grid
        return x * y * z * self.block[0] * self.block[1] * self.block[2]

    def has_block(self, block: Coordinates) -> bool:
        return all(i < n for i, n in zip(block, self.grid, strict=True))

    def has(self, place: Place) -> bool:
        return self.has_block(place[1]) and all(i < n for i, n in zip(place[0], self.block, strict=True))

    def __str__(self) -> str:
        return f"{self.kernel}, grid {self.grid}, block {self.block}"


def never_came(
    function: str, line: int | None, place: Place, sample: NamedCall, launches: Sequence[Launch]
) -> DebugError:
    """Why a sample ended without reaching a line (None: the first) of ``function`` in the thread ``place``."""
    where = f"{function} on {sample}"
    if not launches:
        return DebugError(f"{where} launches no kernel", "choose another --sample, or another --function")
    there_were = f"its launches: {'; '.join(dict.fromkeys(map(str, launches)))}"
    thread, block = place
    if not any(launch.has_block(block) for launch in launches):
        return DebugError(f"no launch of {where} has block {block}", there_were)
    if not any(launch.has(place) for launch in launches):
        return DebugError(f"no launch of {where} has thread {thread} in block {block}", there_were)
    what = function if line is None else f"line {line}"
    return DebugError(
        f"{described(place)} never came to {what} in {sample}",
        "choose another --thread or --block, or an earlier --line",
    )


@dataclass
class Target:
    """A trace function that waits until a CUDA thread reaches a line. No other thread is traced.

    Attributes:
        place: the thread.
        within: the code of launch functions; launches by others do not count.
        function: the code of a kernel or device function; None: any kernel.
        line: file and number; None: the first line of ``function``.
        arrive: called there, once, with the frame, the launch function's frame, and the launch; its result becomes the
            frame's trace function.
        at_call: arrive at the call of the kernel, before its first line. A profile function gets no line events.
        launches: those made by ``within`` so far.
    """

    place: Place
    within: frozenset[CodeType]
    function: CodeType | None
    line: tuple[str, int] | None
    arrive: Callable[[FrameType, FrameType, Launch], Any]
    at_call: bool = False
    launches: list[Launch] = field(default_factory=list)
    arrived: bool = False
    _to_begin: int = 0  # threads of the running launch

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        """The trace function; see :func:`sys.settrace`."""
        running = _simulator.current()
        if running is None or event not in ("call", "line"):
            return self if event != "call" else None
        if event == "call":
            begins = stepping.outermost(frame) and not stepping.resumes(frame)
            if begins:
                self._count(frame)
            if running != self.place:
                return None
        if running == self.place and (event == "line" or self.at_call) and self._is_here(frame):
            launcher = self._launch_function(frame)
            if launcher is not None:
                self.arrived = True
                return self.arrive(frame, launcher, self.launches[-1])
        return self

    def _is_here(self, frame: FrameType) -> bool:
        if self.line is not None:
            return (frame.f_code.co_filename, frame.f_lineno) == self.line
        return stepping.outermost(frame) if self.function is None else _is_code_of(frame, self.function)

    def _count(self, frame: FrameType) -> None:
        """A launch counts when the first of its threads begins."""
        if self._to_begin == 0:
            launch = Launch.running(frame.f_code.co_name)
            self._to_begin = launch.threads
            if self._launch_function(frame) is not None:
                self.launches.append(launch)
        self._to_begin -= 1

    def _launch_function(self, frame: FrameType) -> FrameType | None:
        caller = frame.f_back
        while caller is not None and caller.f_code not in self.within:
            caller = caller.f_back
        return caller


def _is_code_of(frame: FrameType, function: CodeType) -> bool:
    """The simulator runs a rewritten copy of a function's code, with the same lines."""
    code = frame.f_code
    return (code.co_filename, code.co_name) == (function.co_filename, function.co_name)
