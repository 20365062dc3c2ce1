"""One run of ``trifold debug``: an op's prototype on a sample, with a debugger waiting in a CUDA thread."""

from __future__ import annotations

import bdb
import sys
import traceback
from dataclasses import dataclass
from functools import partial
from types import FrameType, FunctionType, ModuleType
from typing import Any

import trifold.simulator
from trifold.debug import sample as samples
from trifold.debug.kernels import check_line, device_functions
from trifold.debug.sample import DebugError, NamedCall
from trifold.debug.target import Launch, Target, never_came
from trifold.implementation import Implementation, load_prototype, prototype_module
from trifold.simulator.coordinates import Place, described
from trifold.simulator.debugger import KernelDebugger, hidden
from trifold.spec.load import load_spec
from trifold.workspace import OpFiles


@dataclass(frozen=True)
class Session:
    """A run, and where to stop.

    Attributes:
        function: of the prototype, in which to stop: a launch function stands for the kernel that it launches.
        launchers: the launch functions whose launches count.
        place: the CUDA thread to stop in.
        line: of the prototype's file; None: the function's first.
    """

    implementation: Implementation
    function: FunctionType
    launchers: tuple[FunctionType, ...]
    sample: NamedCall
    place: Place
    line: int | None

    @classmethod
    def open(cls, files: OpFiles, function: str, sample: str | None, place: Place, line: int | None) -> Session:
        """Load the op in the simulator.

        Raises:
            TrifoldError: the op cannot be loaded; it has no such function, sample or line.
        """
        if line is not None and _editor():
            raise DebugError(
                "--line is for pdb, and an editor debugs this process", "set a breakpoint there in the editor"
            )
        trifold.simulator.install()
        prototype = prototype_module(files, "cpu")
        implementation = load_prototype(files, "cpu")
        chosen = samples.choose(samples.named_calls(load_spec(files)), sample, files.spec)
        if line is not None:
            check_line(prototype, files.prototype, line)
        wanted, launchers = _function(prototype, implementation, function)
        return cls(implementation, wanted, launchers, chosen, place, line)

    def run(self) -> int:
        """Run the sample. Returns the exit status: 0; 1 if the kernel raised.

        Raises:
            DebugError: the sample ended without reaching the place; the text lists its launches.
        """
        editor = _editor()
        debugger = KernelDebugger()
        target = Target(
            self.place,
            frozenset(launcher.__code__ for launcher in self.launchers),
            None if self.function in self.launchers else self.function.__code__,
            None if self.line is None else (str(self.implementation.files.prototype), self.line),
            self._stop_in_editor if editor else partial(self._stop, debugger),
            at_call=editor,
        )
        backward = any(launcher.__name__ != self.implementation.files.name for launcher in self.launchers)
        install = sys.setprofile if editor else sys.settrace
        install(target)
        try:
            with trifold.simulator.options(schedules=1):  # a debugger follows one
                samples.run(self.implementation.function, self.sample.call, backward=backward)
        except bdb.BdbQuit:
            return 0
        except Exception as error:
            install(None)
            if editor:
                raise
            _show(error, debugger)
            return 1
        finally:
            install(None)
        if not target.arrived:
            raise self._missed(target)
        debugger.message("the sample has ended")
        return 0

    def _stop(self, debugger: KernelDebugger, frame: FrameType, launcher: FrameType, launch: Launch) -> Any:
        debugger.message(f"{launch}, {described(self.place)}, {self.sample}")
        debugger.begin(frame, launcher, at=self.place)
        return debugger.trace_dispatch(frame, "line", None)

    def _stop_in_editor(self, frame: FrameType, *_: object) -> None:
        import pydevd  # type: ignore[import-not-found]

        sys.setprofile(None)
        pydevd.settrace(suspend=True, trace_only_current_thread=True, patch_multiprocessing=False, stop_at_frame=frame)

    def _missed(self, target: Target) -> DebugError:
        return never_came(self.function.__name__, self.line, self.place, self.sample, target.launches)


def _function(
    prototype: ModuleType, implementation: Implementation, name: str
) -> tuple[FunctionType, tuple[FunctionType, ...]]:
    """The function named ``name``, and the launch functions that lead to it."""
    launchers = {name: getattr(prototype, name) for name in implementation.operators.schemas}
    kernels = device_functions(prototype)
    if name in launchers:
        return launchers[name], (launchers[name],)
    if name in kernels:
        return kernels[name], tuple(launchers.values())
    op = implementation.files.name
    raise DebugError(
        f"the op '{op}' has no function '{name}'",
        f"its launch functions are: {', '.join(launchers)}; its kernels and device functions: {', '.join(kernels)}",
    )


def _editor() -> bool:
    """Whether an editor debugs this process."""
    debugpy = sys.modules.get("debugpy")
    return debugpy is not None and bool(debugpy.is_client_connected())


def _show(error: Exception, debugger: KernelDebugger) -> None:
    """Print the user's part of the traceback, and start a post-mortem debugger."""
    frames = [entry for entry in traceback.walk_tb(error.__traceback__) if not hidden(entry[0])]
    debugger.message("Traceback (most recent call last):")
    for text in traceback.StackSummary.extract(iter(frames)).format():
        debugger.message(text.rstrip())
    debugger.message("".join(traceback.format_exception_only(error)).rstrip())
    debugger.reset()
    debugger.interaction(None, error.__traceback__)
