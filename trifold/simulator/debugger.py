"""pdb with CUDA threads: shows which one it stops in, and has commands to switch to another."""

from __future__ import annotations

import linecache
import os
import pdb
import re
import sys
from itertools import groupby
from types import FrameType, TracebackType
from typing import Any

from trifold import _simulator
from trifold.simulator import stepping
from trifold.simulator.coordinates import Coordinates, Place, described, parsed

_THREAD = re.compile(r"(?P<thread>.*?)(?:(?:\s+of)?\s+block\s+(?P<block>.*))?")
_RUNS_PROGRAMS = os.path.join(os.path.dirname(__file__), "__main__.py")


class KernelDebugger(pdb.Pdb):
    """pdb for kernels in the simulator.

    It prints the CUDA thread whenever that changes, shows only the user's own frames of the stack, and stops at a
    kernel's first line rather than at its call.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._shown: Place | None = None
        self._awaited: Place | None = None
        self._lowest: FrameType | None = None

    def begin(self, frame: FrameType, lowest: FrameType, at: Place) -> None:
        """Debug from the next line of ``frame`` in the CUDA thread ``at``; callers of ``lowest`` are not shown."""
        self.reset()
        caller: FrameType | None = frame
        while caller is not None:
            caller.f_trace = self.trace_dispatch
            self.botframe = caller
            caller = caller.f_back if caller is not lowest else None
        self.set_step()
        self._shown, self._lowest = at, lowest
        sys.settrace(self.trace_dispatch)

    def interaction(self, *args: Any) -> None:
        place = _simulator.current()
        if self._awaited is not None and place != self._awaited:
            self.message(f"{described(self._awaited)} did not run again in its launch")
        elif place is not None and place != self._shown:
            self.message(described(place))
        self._shown, self._awaited = place, None
        super().interaction(*args)

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        if not stepping.outermost(frame):
            super().user_call(frame, argument_list)

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        super().user_return(frame, return_value)
        if frame is self._lowest and not self.quitting:
            self.set_continue()  # its callers are not the user's

    def get_stack(
        self, frame: FrameType | None, traceback: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        stack, index = super().get_stack(frame, traceback)
        shown = [entry for entry in stack if entry[0] is stack[index][0] or not hidden(entry[0])]
        return shown, shown.index(stack[index])

    def do_thread(self, arg: str) -> bool | None:
        """thread [X,Y,Z [of block X,Y,Z]]

        Without an argument, print the current CUDA thread. With the index of a thread (in this block unless the block
        is given), continue until that thread runs, and stop at its next line.
        """
        here = _simulator.current()
        if here is None:
            self.error("no CUDA thread runs here")
            return None
        if not arg:
            self.message(described(here))
            return None
        match = _THREAD.fullmatch(arg.strip())
        thread = parsed(match["thread"]) if match else None
        block = parsed(match["block"]) if match and match["block"] else here[1]
        if thread is None or block is None:
            self.error("write: thread X,Y,Z, or: thread X,Y,Z of block X,Y,Z")
            return None
        return self._go_to((thread, block))

    def do_info(self, arg: str) -> None:
        """info threads

        Show where each CUDA thread of this block is, and what it waits for.
        """
        if arg.strip() != "threads":
            self.error("write: info threads")
        elif _simulator.current() is None:
            self.error("no CUDA thread runs here")
        else:
            for doing, same in groupby(_simulator.threads(), lambda entry: entry[1:]):
                self.message(_in_words([entry[0] for entry in same], *doing))

    def _go_to(self, place: Place) -> bool | None:
        for index, extent, what, name in (
            (place[0], _simulator.blockDim, "thread", "blockDim"),
            (place[1], _simulator.gridDim, "block", "gridDim"),
        ):
            if any(i >= n for i, n in zip(index, (extent.x, extent.y, extent.z), strict=True)):
                self.error(f"there is no {what} {index}: {name} is {(extent.x, extent.y, extent.z)}")
                return None
        self.set_step()
        stepping.bind(self, place)
        self._awaited = place
        return True


def _in_words(threads: list[Coordinates], does: str, file: str, line: int) -> str:
    which = f"{threads[0]}" if len(threads) == 1 else f"{threads[0]} to {threads[-1]}, {len(threads)} threads:"
    marker = "*" if does == "runs" else " "
    where = f" at {os.path.basename(file)}:{line}: {linecache.getline(file, line).strip()}" if file else ""
    return f"{marker} {which} {does}{where}"


def hidden(frame: FrameType) -> bool:
    """Whether ``frame`` is hidden: it is between the user's own frames, or runs the program."""
    module, file = str(frame.f_globals.get("__name__")), frame.f_code.co_filename
    if stepping.passed_over(frame) or file == _RUNS_PROGRAMS:
        return True
    return module.startswith(("torch.", "runpy")) and not stepping.on_cuda_thread(frame)
