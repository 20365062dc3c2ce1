"""``next``, ``step``, ``until`` and ``return`` inside a kernel, for every debugger built on :mod:`bdb`.

A CUDA thread with a barrier is a generator, and while it waits at the barrier its block's other threads run. Python's
own rules for generators are then wrong: ``step`` stops as if a function had returned, and after ``next`` has left a
helper with a barrier, another thread's ``yield from`` is mistaken for the caller ("Internal StopIteration"). Inside a
launch the rules are:

- A step belongs to the CUDA thread in which it was started. Until it is done, no other thread of the launch stops, not
  even at a breakpoint.
- Waiting at a barrier is neither a return nor a call. A helper is a function, whether it has a barrier or not.
- When the thread has ended, the step leads to the next stop: a breakpoint in any thread, or the line after the launch.
- Python code of the simulator, of Numba and of the toolkit is skipped.

They apply to pdb, its relatives and ``pytest --pdb``. Such a debugger may exist before the first kernel, and may be any
subclass: so the rules are installed into :class:`bdb.Bdb` itself, and take effect only while a CUDA thread runs or a
step in one is in progress. debugpy has a separate tracer, and needs none of this.
"""

from __future__ import annotations

import bdb
import dis
import sys
from collections.abc import Callable
from inspect import CO_GENERATOR
from types import FrameType, TracebackType
from typing import Any, TypeAlias

from trifold import _simulator
from trifold.simulator.coordinates import Place

Caught: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]

_SUSPENSIONS = {dis.opmap["YIELD_VALUE"], dis.opmap["RESUME"]}  # where generators suspend; the latter in 3.13
_original: dict[str, Callable[..., Any]] = {}


def install() -> None:
    """Install the rules into :class:`bdb.Bdb`; a second call does nothing."""
    for name, rule in vars(_Rules).items():
        if callable(rule) and name not in _original and hasattr(bdb.Bdb, name):
            _original[name] = getattr(bdb.Bdb, name)
            setattr(bdb.Bdb, name, rule)


def uninstall() -> None:
    """Restore the methods of :class:`bdb.Bdb`."""
    for name, method in _original.items():
        setattr(bdb.Bdb, name, method)
    _original.clear()


def on_cuda_thread(frame: FrameType) -> bool:
    """Whether ``frame`` belongs to the running CUDA thread, rather than to the program that launched it."""
    launcher = _simulator.launcher()
    if launcher is None:
        return False
    lowest = frame
    while lowest.f_back is not None:
        lowest = lowest.f_back
        if lowest is launcher:
            return True
    return _has_own_stack(lowest, launcher)


def outermost(frame: FrameType) -> bool:
    """Whether ``frame`` is the kernel's own: the first of the running CUDA thread."""
    launcher = _simulator.launcher()
    if launcher is None:
        return False
    return frame.f_back is launcher or (frame.f_back is None and _has_own_stack(frame, launcher))


def _has_own_stack(lowest: FrameType, launcher: FrameType) -> bool:
    """Whether a frame without caller is a greenlet's, and so not the lowest of the launching program."""
    caller: FrameType | None = launcher
    while caller is not None and caller is not lowest:
        caller = caller.f_back
    return caller is None


def passed_over(frame: FrameType) -> bool:
    """Whether ``frame`` is skipped: it is Numba's or ours, and not a device function."""
    module = str(frame.f_globals.get("__name__"))
    if module == "__main__":  # python -m pdb -m trifold.simulator stops in it before it runs anything
        return False
    if module.startswith(("trifold.simulator.", "trifold.debug.")):
        return True
    return module.startswith(("numba.", "trifold.")) and not on_cuda_thread(frame)


def _called_below(frame: FrameType) -> bool:
    """Whether skipped code called ``frame``, perhaps through functions that are not traced either."""
    caller = frame.f_back
    while caller is not None and caller.f_trace is None and not passed_over(caller):
        caller = caller.f_back
    users = frame.f_globals.get("__name__") == "__main__" or on_cuda_thread(frame)
    return caller is not None and caller.f_trace is None and not users


def nearest_caller(frame: FrameType) -> FrameType | None:
    """The frame below a kernel's on the stack that is shown to a user."""
    caller = frame.f_back or _simulator.launcher()
    while caller is not None and passed_over(caller):
        caller = caller.f_back
    return caller


def bind(debugger: bdb.Bdb, place: Place | None) -> None:
    """Assign the step that ``debugger`` is about to take to the CUDA thread ``place``."""
    vars(debugger)["_cuda_thread"] = place


def bound_to(debugger: bdb.Bdb) -> Place | None:
    """The CUDA thread in which ``debugger`` takes a step, if it does."""
    place: Place | None = vars(debugger).get("_cuda_thread")
    return place


def _elsewhere(debugger: bdb.Bdb) -> bool:
    """Whether the running CUDA thread is another than the step's."""
    bound, running = bound_to(debugger), _simulator.current()
    return bound is not None and running is not None and bound != running


def resumes(frame: FrameType) -> bool:
    """At a call event: whether a generator resumes. RESUME's two lowest bits are 0 at the start of a function."""
    code = frame.f_code.co_code
    return code[frame.f_lasti] == dis.opmap["RESUME"] and code[frame.f_lasti + 1] & 3 != 0


def suspends(frame: FrameType) -> bool:
    """At a return event: whether a generator yields."""
    return _is_generator(frame) and frame.f_code.co_code[frame.f_lasti] in _SUSPENSIONS


def _is_generator(frame: FrameType) -> bool:
    return frame.f_code.co_flags & CO_GENERATOR != 0


def _stop_at(debugger: bdb.Bdb, frame: FrameType | None) -> None:
    """Stop at the next line of ``frame``; None: at the next event."""
    debugger._set_stopinfo(frame, None)  # type: ignore[attr-defined]


def _unless_elsewhere(debugger: bdb.Bdb, method: str, frame: FrameType, *arg: Any) -> Any:
    hidden = debugger.stopframe is None and passed_over(frame) and not debugger.break_anywhere(frame)
    if hidden or _elsewhere(debugger):
        return debugger.trace_dispatch
    if bound_to(debugger) is not None and _simulator.current() is None:
        _stop_at(debugger, None)  # the launch ended before the step did: an error in another thread
    return _original[method](debugger, frame, *arg)


def _stop_at_return(debugger: bdb.Bdb, frame: FrameType, value: Any) -> None:
    """As Bdb does for a function that is not a generator."""
    if not (debugger.stop_here(frame) or frame is debugger.returnframe):
        return
    debugger.frame_returning = frame
    try:
        debugger.user_return(frame, value)
    finally:
        debugger.frame_returning = None
    if debugger.quitting:
        raise bdb.BdbQuit
    if debugger.stopframe is frame and debugger.stoplineno != -1:
        _stop_at(debugger, None)
    if debugger.stoplineno != -1 and frame.f_back is not None and frame.f_back.f_trace is None:
        frame.f_back.f_trace = debugger.trace_dispatch


def _leave_cuda_thread(debugger: bdb.Bdb, frame: FrameType) -> None:
    caller = nearest_caller(frame)
    if caller is not None and caller.f_trace is None:
        caller.f_trace = debugger.trace_dispatch
    _stop_at(debugger, caller or debugger.botframe)


class _Rules(bdb.Bdb):
    """Methods that :func:`install` puts into :class:`bdb.Bdb`. Those that a Python version's Bdb lacks are omitted."""

    def _set_stopinfo(
        self, stopframe: FrameType | None, returnframe: FrameType | None, stoplineno: int = 0, **more: Any
    ) -> None:
        _original["_set_stopinfo"](self, stopframe, returnframe, stoplineno, **more)
        goes_on = stoplineno == -1
        in_kernel = stopframe is None or on_cuda_thread(stopframe)
        bind(self, _simulator.current() if in_kernel and not goes_on else None)

    def set_trace(self, frame: FrameType | None = None) -> None:
        tracer = getattr(sys.gettrace(), "__self__", None)
        if isinstance(tracer, bdb.Bdb) and _elsewhere(tracer):
            return  # breakpoint(), reached by another thread than the step's
        _original["set_trace"](self, frame or sys._getframe().f_back)

    def set_return(self, frame: FrameType) -> None:
        if on_cuda_thread(frame):
            self._set_stopinfo(frame.f_back, frame)
            bind(self, _simulator.current())
        else:
            _original["set_return"](self, frame)

    def dispatch_call(self, frame: FrameType, arg: None) -> Any:
        watched, elsewhere = bool(self.breaks) and self.break_anywhere(frame), _elsewhere(self)
        if not watched and (elsewhere or passed_over(frame) or (self.stopframe is None and _called_below(frame))):
            return None
        if _simulator.current() is None or self.botframe is None:
            return _original["dispatch_call"](self, frame, arg)
        if elsewhere or resumes(frame):
            return self.trace_dispatch if watched or self.stop_here(frame) else None
        return _original["dispatch_call"](self, frame, arg)

    def dispatch_line(self, frame: FrameType) -> Any:
        return _unless_elsewhere(self, "dispatch_line", frame)

    def dispatch_opcode(self, frame: FrameType, arg: Any) -> Any:
        return _unless_elsewhere(self, "dispatch_opcode", frame, arg)

    def dispatch_exception(self, frame: FrameType, arg: Caught) -> Any:
        ends = issubclass(arg[0], StopIteration | GeneratorExit) and _is_generator(frame)
        if ends and (_simulator.current() is not None or bound_to(self) is not None):
            return self.trace_dispatch  # a helper returns; a failed launch closes its threads
        return _unless_elsewhere(self, "dispatch_exception", frame, arg)

    def dispatch_return(self, frame: FrameType, arg: Any) -> Any:
        if _simulator.current() is None:
            return _unless_elsewhere(self, "dispatch_return", frame, arg)
        if not _elsewhere(self) and not suspends(frame) and not passed_over(frame):
            _stop_at_return(self, frame, arg)
            if outermost(frame) and bound_to(self) is not None:
                _leave_cuda_thread(self, frame)
        return self.trace_dispatch
