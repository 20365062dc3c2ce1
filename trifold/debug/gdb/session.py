"""gdb's part of ``trifold debug --port``: loaded by gdb with ``source``, also in editors.

With ``TRIFOLD_DEBUG`` (written by trifold.debug.port) it runs the program and stops in the requested CUDA thread.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import look

Coordinates = tuple[int, int, int]
_LAUNCH = "trifold::launch_kernel"  # called by all kinds of launches
_KERNEL = re.compile(r"launch_kernel<&?\(?(?:void )?(?:\(anonymous namespace\)::)?(\w+)")
_PLACE = re.compile(r"\(?([\d, ]+?)\)?(?:(?:\s+of)?\s+block\s+\(?([\d, ]+?)\)?)?")


def here() -> tuple[Coordinates, Coordinates]:
    """The running CUDA thread: its index and its block's."""
    return look.coordinates(gdb.parse_and_eval("threadIdx")), look.coordinates(gdb.parse_and_eval("blockIdx"))


def described(thread: Coordinates, block: Coordinates) -> str:
    return f"thread {thread} of block {block}"


def condition(thread: Coordinates, block: Coordinates) -> str:
    indices = zip(("threadIdx", "blockIdx"), (thread, block), strict=True)
    return " && ".join(f"{name}.{axis} == {i}" for name, at in indices for axis, i in zip("xyz", at, strict=True))


def in_kernel() -> Any:
    """The frame of the running kernel: the user's outermost on a CUDA thread's stack; else None."""
    frame, found = gdb.newest_frame() if _runs() else None, None
    while frame is not None and frame.is_valid():
        name = frame.name() or ""
        if look.is_users(frame):
            found = frame
        elif found is not None and name.startswith("trifold::") and "launch" in name and "{lambda" in name:
            return found
        frame = frame.older()
    return None


class Session:
    """The last launch, and how gdb continues after its threads."""

    def __init__(self) -> None:
        self.guides = False  # internal stops
        self.arrived = False
        self.launched_from: int | None = None  # the address after the call, in the user's own code

    def note_launch(self) -> tuple[str, Coordinates, Coordinates, str]:
        """Kernel, grid, block and C++ function of the launch that begins."""
        frame = gdb.newest_frame()
        kernel = _KERNEL.search(frame.name() or "")
        launched = frame.read_var("kernel")
        grid, block = look.coordinates(launched["grid"]), look.coordinates(launched["threads"])
        self.launched_from, function = None, ""
        caller = frame.older()
        while caller is not None and caller.is_valid():
            if look.is_users(caller):
                self.launched_from = self.launched_from or caller.pc()
                function = (caller.name() or "").rpartition("::")[2]
            caller = caller.older()
        return (kernel[1] if kernel else "", grid, block, function)

    def leave_engine(self) -> None:
        """At a stop: a step that ended in the engine continues to where the launch returns."""
        if self.guides or gdb.selected_thread() is None or not gdb.selected_thread().is_valid():
            return
        why = gdb.execute("info program", to_string=True)
        if "after being stepped" not in why and "since been deleted" not in why:
            return
        frame = gdb.newest_frame()
        if look.is_users(frame) or self.launched_from is None:
            return
        gdb.execute(f"tbreak *{self.launched_from}", to_string=True)
        gdb.execute("continue")


session = Session()


class Trifold(gdb.Command):
    """Commands for CUDA threads: trifold where, trifold thread."""

    def __init__(self) -> None:
        super().__init__("trifold", gdb.COMMAND_RUNNING, prefix=True)


class Where(gdb.Command):
    """trifold where: the running CUDA thread, its launch, and what the other threads of its block wait for."""

    def __init__(self) -> None:
        super().__init__("trifold where", gdb.COMMAND_STATUS)

    def invoke(self, argument: str, from_tty: bool) -> None:
        kernel = in_kernel()
        if kernel is None:
            raise gdb.GdbError("no CUDA thread runs here")
        grid, block = (look.coordinates(gdb.parse_and_eval(name)) for name in ("gridDim", "blockDim"))
        print(f"{described(*here())} of {kernel.name()}, grid {grid}, block {block}")
        for group in look.other_threads():
            print(f"  {group}")


class GoTo(gdb.Command):
    """trifold thread X,Y,Z [of block X,Y,Z]: continue until that CUDA thread runs, and stop at its next line."""

    def __init__(self) -> None:
        super().__init__("trifold thread", gdb.COMMAND_RUNNING)

    def invoke(self, argument: str, from_tty: bool) -> None:
        kernel, match = in_kernel(), _PLACE.fullmatch(argument.strip())
        if kernel is None:
            raise gdb.GdbError("no CUDA thread runs here")
        if match is None:
            raise gdb.GdbError("write: trifold thread X,Y,Z, or: trifold thread X,Y,Z of block X,Y,Z")
        place = _coordinates(match[1]), _coordinates(match[2]) if match[2] else here()[1]
        for index, extent, what in ((place[0], "blockDim", "thread"), (place[1], "gridDim", "block")):
            size = look.coordinates(gdb.parse_and_eval(extent))
            if any(i >= n for i, n in zip(index, size, strict=True)):
                raise gdb.GdbError(f"there is no {what} {index}: {extent} is {size}")
        stops = [_internal(f"*{address}", condition(*place)) for address in _lines(kernel)]
        if session.launched_from is not None:
            stops.append(_internal(f"*{session.launched_from}"))
        _continue_quietly()
        for stop in stops:
            stop.delete()
        if _runs() and gdb.newest_frame().pc() == session.launched_from:
            print(f"{described(*place)} did not run again in its launch")
        _show()


def _coordinates(text: str) -> Coordinates:
    x, y, z = ([int(part) for part in text.split(",") if part.strip()] + [0, 0])[:3]
    return x, y, z


def _lines(kernel: Any) -> list[int]:
    """The addresses at which the lines of a kernel begin, except its head's."""
    block = kernel.block()
    while block.function is None:
        block = block.superblock
    entries = [e for e in kernel.find_sal().symtab.linetable() if block.start <= e.pc < block.end and e.line > 0]
    head = min(entries, key=lambda entry: entry.pc).line
    return sorted({entry.pc for entry in entries if entry.line != head})


def _internal(place: str, only_if: str = "") -> Any:
    made = gdb.Breakpoint(place, internal=True)
    made.silent = True
    if only_if:
        made.condition = only_if
    return made


def _runs() -> bool:
    thread = gdb.selected_thread()
    return thread is not None and bool(thread.is_valid())


def _continue_quietly() -> None:
    session.guides = True
    try:
        gdb.execute("continue", to_string=True)
    finally:
        session.guides = False


def _show() -> None:
    """Print the program's location, as after an ordinary stop."""
    if _runs():
        gdb.execute("frame")


def arrive(wanted: dict[str, Any]) -> None:
    """Run the program until the requested CUDA thread reaches the requested line; launches are written to a file."""
    launches: list[tuple[str, Coordinates, Coordinates]] = []
    gdb.execute("set auto-solib-add off")  # loading all of torch's symbols takes seconds, and they are not needed
    session.guides = True
    program, *arguments = wanted["command"]
    gdb.execute(f"file {program}", to_string=True)
    gdb.execute(f"set args {shlex.join(arguments)}")
    main = _internal("main" if _is_known("main") else "Py_BytesMain")  # Debian's python3 is stripped
    gdb.execute("run", to_string=True)
    main.delete()
    loaded = _internal("kill")  # called by trifold.debug.driver once the port is loaded
    gdb.execute("continue", to_string=True)
    if _runs():
        loaded.delete()
        gdb.execute(f"sharedlibrary {re.escape(Path(wanted['library']).name)}", to_string=True)
        mistake = _misplaced(wanted)
        if mistake is None:
            _follow(wanted, launches)
        elif _runs():
            gdb.execute("kill", to_string=True)
        _write_outcome(wanted, {"launches": launches, "next_line": mistake})
    else:
        _write_outcome(wanted, {})
    session.guides = False
    if not session.arrived and not _runs():
        gdb.execute("quit")


def _is_known(function: str) -> bool:
    try:
        gdb.parse_and_eval(function)
    except gdb.error:
        return False
    return True


def _follow(wanted: dict[str, Any], launches: list[tuple[str, Coordinates, Coordinates]]) -> None:
    at_launch = _internal(_LAUNCH)
    there = None
    thread, block = tuple(wanted["thread"]), tuple(wanted["block"])
    while _runs():
        gdb.execute("continue", to_string=True)
        if not _runs():
            return
        if there is not None and there.hit_count > 0:
            session.arrived = True
            kernel, grid, extent = launches[-1]
            print(f"{kernel}, grid {grid}, block {extent}, {described(thread, block)}, {wanted['sample']}")
            break
        if not (gdb.newest_frame().name() or "").startswith(f"{_LAUNCH}<"):
            session.arrived = True  # at a signal: the user sees where
            break
        kernel, grid, extent, function = session.note_launch()
        if there is not None:
            there.delete()
            there = None
        if function not in wanted["functions"] and wanted["functions"]:
            continue
        launches.append((kernel, grid, extent))
        if all(i < n for at, size in ((thread, extent), (block, grid)) for i, n in zip(at, size, strict=True)):
            line, name = wanted["line"], wanted["function"] or kernel
            where = f"{wanted['header']}:{line}" if line else f"-function {name}"
            there = _internal(where, condition(thread, block))
    if there is not None:
        there.delete()
    at_launch.delete()
    _Launches(_LAUNCH, internal=True)
    _show()


class _Launches(gdb.Breakpoint):
    """Does not stop, but records where each launch returns to."""

    def stop(self) -> bool:
        session.note_launch()
        return False


def _misplaced(wanted: dict[str, Any]) -> int | None:
    """The line of the next statement, if none begins at the requested line."""
    if wanted["line"] is None:
        return None
    _, places = gdb.decode_line(f"{wanted['header']}:{wanted['line']}")
    lines = [place.line for place in places or ()]
    return None if wanted["line"] in lines or not lines else int(min(lines))


def _write_outcome(wanted: dict[str, Any], met: dict[str, Any]) -> None:
    Path(wanted["outcome"]).write_text(json.dumps({"arrived": session.arrived, **met}), encoding="utf-8")


def _at_exit(event: Any) -> None:
    if session.arrived and hasattr(event, "exit_code"):  # not where gdb killed it
        print("the sample has ended")


look.install()
Trifold()
Where()
GoTo()
for setting in (
    "confirm off",
    "breakpoint pending on",
    "disable-randomization off",  # containers forbid it, and gdb would say so at each start
    "environment OMP_NUM_THREADS 1",  # blocks run one after the other: one OS thread has all CUDA threads
):
    gdb.execute(f"set {setting}")
with suppress(gdb.error):
    gdb.execute("set debuginfod enabled off")  # since gdb 12, asks whether to download symbols
gdb.execute("define hook-stop\npython session.leave_engine()\nend")
gdb.events.exited.connect(_at_exit)
if "TRIFOLD_DEBUG" in os.environ:
    arrive(json.loads(os.environ["TRIFOLD_DEBUG"]))
else:
    _Launches(_LAUNCH, internal=True)
