"""One launch: the kernel's program, its arguments as seen by the kernel, its schedules, and its findings."""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from itertools import combinations
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from trifold import _simulator
from trifold.errors import LaunchError
from trifold.findings import KernelWarning
from trifold.limits import LIMITS, Dim3, check_launch
from trifold.simulator import arguments as argument
from trifold.simulator.programs import Programs
from trifold.simulator.rewriter import Program
from trifold.simulator.settings import Options, current
from trifold.simulator.signatures import cast_scalars
from trifold.simulator.types_of import Type

if TYPE_CHECKING:
    from trifold.simulator.compiled.kernels import Compiled

_CHECK_BITS = {
    "race": _simulator.CHECK_RACE,
    "uninitialised": _simulator.CHECK_UNINITIALISED,
    "bounds": _simulator.CHECK_BOUNDS,
    "lint": _simulator.CHECK_LINT,
}
Launches = Generator[tuple[Any, ...], None, None]  # arguments of _simulator.launch

_one_at_a_time = threading.Lock()  # a program's captured arrays belong to the running launch
_started = 0
_launched: WeakKeyDictionary[FunctionType, int] = WeakKeyDictionary()


def launches() -> int:
    """The number of launches that this process has started."""
    return _started


def launched(function: FunctionType) -> int:
    """The number of launches of the kernel whose Python function is ``function``."""
    return _launched.get(function, 0)


_observers: list[Callable[[list[Any]], object]] = []


@contextlib.contextmanager
def told_to(observer: Callable[[list[Any]], object]) -> Iterator[None]:
    """Within it, ``observer`` gets the arrays of each launch of this process, before its kernel runs."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


class Launcher:
    """Runs kernels: ``kernel[grid, block, stream, shared](*arguments)``."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._allowed: set[tuple[object, ...]] = set()  # configurations that fit the GPU's limits
        self._parameters: WeakKeyDictionary[FunctionType, tuple[int, int, tuple[str, ...]]] = WeakKeyDictionary()
        self._types: dict[tuple[object, ...], tuple[Type, ...]] = {}
        self._compiled: Compiled | None = None

    def launch(self, kernel: Any, arguments: Sequence[Any]) -> Launches:
        """Run a configured FakeCUDAKernel: yields the launches to the seam.

        Raises:
            LaunchError: the configuration or an argument is wrong.
            KernelFault: a check found an error.
        """
        options = current()
        function: FunctionType = kernel.fn
        where = kernel.grid_dim, kernel.block_dim, kernel.dynshared_size
        configuration = (options.compute_capability, *where)
        if configuration not in self._allowed:
            check_launch(function.__name__, *configuration)
            self._allowed.add(configuration)
        if options.compiled and not _observers and self._runs_again(kernel, arguments, options):
            return
        program = self._programs.of(function, debug=kernel._debug)
        if kernel.extensions or hasattr(kernel, "signatures"):
            arguments, after = _prepared(kernel, arguments)
            staging, shapes = self._stage(function, arguments)
            staging.after += after
        else:
            staging, shapes = self._stage(function, arguments)
        if program.typed:
            program = self._programs.of(function, debug=kernel._debug, types=self._types_of(staging, shapes))
        self._programs.report_refused(program, lints="lint" in options.checks)
        for captured in program.captured:
            argument.stage_captured(staging, captured.name, captured.host)
        _count(function)
        for observer in _observers:
            observer([value for value in staging.values if isinstance(value, np.ndarray)])
        with _one_at_a_time:
            if not (options.compiled and self._runs_compiled(kernel, staging, arguments, program)):
                yield from _Run(program, where, staging, shapes, options).all_schedules()
        for finish in staging.after:
            finish()

    def _runs_again(self, kernel: Any, arguments: Sequence[Any], options: Options) -> bool:
        """Whether it has run as native code, like an earlier launch."""
        if self._compiled is None or (launch := self._compiled.again(kernel, arguments, options)) is None:
            return False
        _count(kernel.fn)
        with _one_at_a_time:
            launch()
        return True

    def _runs_compiled(
        self, kernel: Any, staging: argument.Staging, arguments: Sequence[Any], program: Program
    ) -> bool:
        """Whether the kernel has run as native code."""
        if self._compiled is None:
            from trifold.simulator.compiled.kernels import Compiled

            self._compiled = Compiled()
        aliases = Aliases(staging)
        ran = self._compiled.launch(
            kernel, staging, arguments, current(), program.functions, again=not self._programs.refused(program)
        )
        if ran:
            aliases.warn_if_written(staging.kernel)
        return ran

    def _types_of(self, staging: argument.Staging, shapes: list[argument.Shape]) -> tuple[Type, ...]:
        """The arguments' types; cached by what they depend on, unless a tuple is among them."""
        if staging.tuples:
            return tuple(argument.type_of_shape(shape, staging) for shape in shapes)
        key = tuple(
            [
                (value.dtype, value.ndim, flags) if isinstance(value, np.ndarray) else type(value)
                for value, flags in zip(staging.values, staging.flags, strict=True)
            ]
        )
        types = self._types.get(key)
        if types is None:
            types = self._types[key] = tuple(argument.type_of_shape(shape, staging) for shape in shapes)
        return types

    def _stage(self, function: FunctionType, arguments: Sequence[Any]) -> tuple[argument.Staging, list[argument.Shape]]:
        known = self._parameters.get(function)
        if known is None:
            known = self._parameters[function] = _parameters(function)
        least, most, names = known
        if not least <= len(arguments) <= most:
            wants = f"{least}" if least == most else f"{least} to {most}"
            raise argument.ArgumentError(
                f"{function.__name__} takes {wants} argument{'' if most == 1 else 's'} ({', '.join(names)}), "
                f"but {len(arguments)} were given",
                f"launch it as {function.__name__}[blocks, threads]({', '.join(names)})",
            )
        staging = argument.Staging(function.__name__)
        if len(arguments) > len(names):  # those after * get numbers
            more = len(arguments) - len(names) + 1
            names = (*names[:-1], *(f"{names[-1]}[{i}]" for i in range(more)))
        shapes = [argument.stage(staging, name, value) for name, value in zip(names, arguments, strict=False)]
        return staging, shapes


def _count(function: FunctionType) -> None:
    global _started
    _started += 1
    _launched[function] = launched(function) + 1


def _prepared(kernel: Any, arguments: Sequence[Any]) -> tuple[Sequence[Any], list[Callable[[], object]]]:
    """The arguments after the kernel's extensions and explicit signatures, and the functions to call after it."""
    after: list[Callable[[], object]] = []
    for extension in kernel.extensions:
        arguments = [extension.prepare_args(None, value, stream=0, retr=after)[1] for value in arguments]
    if signatures := getattr(kernel, "signatures", None):
        arguments = cast_scalars(kernel.__name__, signatures, arguments)
    return arguments, after


def _parameters(function: FunctionType) -> tuple[int, int, tuple[str, ...]]:
    """The least and greatest number of arguments, and their names; those after * share one name."""
    code = function.__code__
    if code.co_kwonlyargcount or code.co_flags & 0x08:  # CO_VARKEYWORDS
        raise LaunchError(
            f"{function.__name__} has parameters by keyword, which a launch cannot pass",
            f"declare them without * and ** in {function.__name__}",
        )
    names = code.co_varnames[: code.co_argcount]
    least = len(names) - len(function.__defaults__ or ())
    if code.co_flags & 0x04:  # CO_VARARGS
        return least, 2**31, (*names, code.co_varnames[code.co_argcount])
    return least, len(names), names


@cache
def _bits(checks: frozenset[str]) -> int:
    return sum(_CHECK_BITS[name] for name in checks)


class _Run:
    """The schedules of one launch."""

    def __init__(
        self,
        program: Program,
        where: tuple[Dim3, Dim3, int],
        staging: argument.Staging,
        shapes: list[argument.Shape],
        options: Options,
    ) -> None:
        self._program = program
        self._where = where
        self._staging = staging
        self._shapes = shapes
        self._options = options
        self._checks = _bits(options.checks)

    def all_schedules(self) -> Launches:
        """Runs every schedule on the same input, that of `seed` first, whose results are kept."""
        options = self._options
        aliases = Aliases(self._staging)
        written = [a for a in self._staging.values if isinstance(a, np.ndarray) and a.flags.writeable]
        inputs = [array.copy() for array in written] if options.schedules > 1 else []
        first = yield from self._once(options.seed)
        _simulator.add_writes(first)
        aliases.warn_if_written(self._staging.kernel)
        results = [array.copy() for array in written] if options.schedules > 1 else []
        try:
            for seed in range(options.seed + 1, options.seed + options.schedules):
                _copy_each(inputs, written)
                with contextlib.redirect_stdout(io.StringIO()):  # a kernel's output is printed once
                    yield from self._once(seed)
        finally:
            if results:
                _copy_each(results, written)
        _simulator.note_launch(first)

    def _once(self, seed: int) -> Generator[tuple[Any, ...], None, tuple[Any, ...]]:
        """Rebuilds the arguments as seen by the kernel, from one value for each of the staging's values."""
        staging, program = self._staging, self._program
        wrapped = values = _simulator.wrap_arguments(
            tuple(staging.names), tuple(staging.values), tuple(staging.flags), self._checks
        )
        if staging.records:
            values = tuple(value[()] if i in staging.records else value for i, value in enumerate(values))
        if program.captured:
            count = len(program.captured)
            for captured, view in zip(program.captured, values[-count:], strict=True):
                captured.array = view
            values = values[:-count]
        if staging.tuples:
            values = tuple(argument.assemble(shape, values) for shape in self._shapes)
        grid, block, shared = self._where
        try:
            yield (
                program.function,
                program.waits,
                staging.kernel,
                grid,
                block,
                shared,
                values,
                self._checks,
                seed,
                LIMITS[self._options.compute_capability].for_engine,
                program.cooperative,
            )
        finally:
            for captured in program.captured:
                captured.array = None
        return wrapped


def _copy_each(contents: list[np.ndarray[Any, Any]], arrays: list[np.ndarray[Any, Any]]) -> None:
    for content, array in zip(contents, arrays, strict=True):
        np.copyto(array, content)


class Aliases:
    """Host arrays of one launch that overlap: one memory here, but several copies in CUDA."""

    def __init__(self, staging: argument.Staging) -> None:
        self._pairs: list[tuple[str, str, Any, Any]] = []
        if len(staging.copied) < 2:
            return
        arrays = [(staging.names[i], staging.values[i]) for i in staging.copied]
        for (name, array), (other_name, other) in combinations(arrays, 2):
            views = array.base is not None or other.base is not None
            if array is other or (views and np.may_share_memory(array, other)):
                self._pairs.append((name, other_name, array, array.copy()))

    def warn_if_written(self, kernel: str) -> None:
        """Warn that CUDA would have another result: each copy misses what was written to the other."""
        for name, other_name, array, before in self._pairs:
            if array.tobytes() != before.tobytes():
                warnings.warn(
                    f"{kernel}: {name} and {other_name} are the same host memory, and the kernel wrote to it. CUDA "
                    "copies each argument to the GPU and back by itself, so there one does not see what is written to "
                    "the other. Pass one device array: cuda.to_device(...)",
                    KernelWarning,
                    stacklevel=4,
                )
