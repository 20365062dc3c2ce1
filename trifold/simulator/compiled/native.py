"""Launches of compiled kernels: each is drafted and built for the types of its arguments, once.

With all checks a launch runs the screen (trifold/cpu/screen.h). Suspected errors are confirmed by running it again,
from the same contents of its arrays, in the build with all checks, whose findings are the launch's. Orders of threads
other than the natural one also use that build: the others have the natural order.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trifold import findings
from trifold.cpu import runtime
from trifold.errors import LaunchError
from trifold.findings import KernelFault, OutOfBounds
from trifold.limits import Dim3
from trifold.simulator import settings
from trifold.simulator.arguments import READ_ONLY, Staging
from trifold.simulator.compiled.drafts import Draft, DraftParameter
from trifold.simulator.compiled.fallbacks import FallbackError
from trifold.simulator.compiled.findings import Outside, with_all_indices, with_functions
from trifold.simulator.compiled.library import CHECKED, PLAIN, SCREEN, Ended, Library
from trifold.simulator.compiled.memory import Contents, Fresh
from trifold.simulator.compiled.request import path_of
from trifold.simulator.settings import Options

ALL = frozenset({"race", "uninitialised", "bounds"})
NONE = frozenset({"bounds"})
_MOST_FALSE_ALARMS = 3  # after which a kernel is no longer screened

# The names of CUDA that the screen supports. Others may order accesses.
_KNOWN_TO_THE_SCREEN = re.compile(
    r"__(?:global|device|forceinline|shared)__|__syncthreads|__(?:popc|ffs|clz|brev)(?:ll)?|__\w+_rn|__double_as_\w+|"
    r"__shfl(?:_up|_down|_xor)?_sync|__(?:ballot|all|any)_sync"
)
_CUDA_NAME = re.compile(r"\b__\w+")
_UNKNOWN_TO_THE_SCREEN = re.compile(r"dynamic_shared|cooperative_groups|volatile|asm")


def is_screened(text: str) -> bool:
    """Whether the screen supports everything that orders the accesses of a draft."""
    names = set(_CUDA_NAME.findall(text))
    if "__shared__" in names and "element<'p'" in text:  # a function may be passed a shared array
        return False
    return all(_KNOWN_TO_THE_SCREEN.fullmatch(name) for name in names) and _UNKNOWN_TO_THE_SCREEN.search(text) is None


Functions = Sequence[tuple[str, int, int]]  # files, with first and last lines, of the functions that run
Where = tuple[Dim3, Dim3, int]


def goes_on(options: Options) -> bool:
    """Whether an out-of-bounds access may be skipped, which only the interpreter does."""
    return options.keep_going or any(each.kind == "out-of-bounds" for each in settings.accepted.all())


def is_plain(options: Options) -> bool:
    """Whether launches run without checks, in the natural order."""
    return options.checks == NONE and options.seed == 0 and options.schedules == 1 and not goes_on(options)


@dataclass
class _Launch:
    """One launch of a compiled kernel."""

    staging: Staging
    values: list[Any]
    shape: Any
    shared: int
    options: Options
    functions: Functions


@dataclass
class Native:
    """A kernel for one type of each of its arguments."""

    draft: Draft
    libraries: dict[str, Library] = field(default_factory=dict)
    false_alarms: int = 0

    def __post_init__(self) -> None:
        arrays = [each for each in self.draft.parameters if each.kind == "array"]
        self.arrays = {each.argument: each.name for each in arrays}
        self.written = {each.argument for each in arrays if not each.type.startswith("const ")}
        self.screened = is_screened(self.draft.text)
        self._takes = [(each.argument, _taking(each)) for each in self.draft.parameters]
        self._shapes: dict[tuple[Dim3, Dim3], Any] = {}
        self._cooperative = "this_grid" in self.draft.text

    def library(self, form: str) -> Library:
        if form not in self.libraries:
            self.libraries[form] = Library(self.draft, form)
        return self.libraries[form]

    def _values(self, arguments: Sequence[Any]) -> list[Any]:
        """The values of the C++ kernel's parameters, from numbers and arrays."""
        return [take(arguments[number]) for number, take in self._takes]

    def _shape(self, grid: Dim3, block: Dim3) -> Any:
        """Laid out as for ``launch_simulated`` in trifold/cpu/simulated_kernel.h."""
        shape = self._shapes.get((grid, block))
        if shape is None:
            shape = self._shapes[grid, block] = (ctypes.c_uint * 7)(*grid, *block, int(self._cooperative))
        return shape

    def launch(
        self,
        staging: Staging,
        arguments: Sequence[Any],
        where: Where,
        options: Options,
        functions: Functions,
    ) -> None:
        """
        Raises:
            KernelFault: a check found an error.
            LaunchError: the kernel was ended, for example after too long a time.
            FallbackError: only the interpreter can describe the finding.
        """
        for number in self.written:
            if staging.flags[number] & READ_ONLY:
                raise FallbackError(f"{self.arrays[number]} is read-only, but the kernel writes to it")
        grid, block, shared = where
        given = [
            value if isinstance(value, np.ndarray) else argument
            for value, argument in zip(staging.values, arguments, strict=False)  # captured arrays follow them
        ]
        launch = _Launch(staging, self._values(given), self._shape(grid, block), shared, options, functions)
        natural = options.seed == 0 and options.schedules == 1
        if options.checks == NONE:
            if not natural:
                raise FallbackError("a seed or several schedules without checks")
            self._run_plain(launch)
        elif natural and self.screened and self.false_alarms < _MOST_FALSE_ALARMS:
            self._run_screened(launch)
        else:
            self._run_checked(launch)

    def launch_again(self, arguments: Sequence[Any], where: Where, options: Options, functions: Functions) -> None:
        """Without checks, with numbers and arrays like those of an earlier launch. Raises as :meth:`launch`."""
        grid, block, shared = where
        library = self.library(PLAIN)
        ended = library.launch(self._shape(grid, block), shared, self._values(arguments))
        if ended != Ended.WELL:
            self._report_end(ended, library, None, options, functions)

    def _run_plain(self, launch: _Launch) -> None:
        library = self.library(PLAIN)
        restore = Contents(launch.staging, self.written) if goes_on(launch.options) else None
        ended = library.launch(launch.shape, launch.shared, launch.values)
        if ended != Ended.WELL:
            self._report_end(ended, library, restore, launch.options, launch.functions)

    def _report_end(
        self, ended: Ended, library: Library, restore: Contents | None, options: Options, functions: Functions
    ) -> None:
        """Raise the error that ended a launch without checks, or with the screen."""
        if ended == Ended.BY_AN_ERROR:
            raise LaunchError(library.message)
        if restore is not None and goes_on(options):
            restore.back()
            raise FallbackError("a launch continues after an access out of bounds")
        outside = Outside.parse(library.message, self.draft.name).finding(self.draft.name, options.seed)
        finding = with_functions(outside, functions)
        findings.record(finding)
        raise OutOfBounds(finding)

    def _run_screened(self, launch: _Launch) -> None:
        library = self.library(SCREEN)
        fresh = Fresh(launch.staging, self.arrays, self.written)
        contents = Contents(launch.staging, self.written)
        given, count = fresh.given()
        ended = library.launch(launch.shape, launch.shared, launch.values, given, count)
        if ended == Ended.WELL:
            return
        if ended != Ended.SUSPECTED:
            self._report_end(ended, library, contents, launch.options, launch.functions)
        contents.back()
        self._run_checked(launch)
        self.false_alarms += 1

    def _run_checked(self, launch: _Launch) -> None:
        """Run every schedule from the same contents; the results of the first one are kept."""
        options = launch.options
        library = self.library(CHECKED)
        runtime.accepted.suppress(options.suppressions)
        for file, first, last in launch.functions:
            runtime.accepted.take_function(path_of(file), first, last)
        contents = Contents(launch.staging, self.written)
        results: Contents | None = None
        for seed in range(options.seed, options.seed + options.schedules):
            if results is not None:
                contents.back()
            try:
                self._run_once(launch, library, contents, seed)
            finally:
                if results is not None:
                    results.back()
            if options.schedules > 1 and results is None:
                results = Contents(launch.staging, self.written)

    def _run_once(self, launch: _Launch, library: Library, contents: Contents, seed: int) -> None:
        ended = Ended.WELL
        staging = launch.staging

        def call() -> None:
            nonlocal ended
            for number in self.arrays:
                low, high = np.lib.array_utils.byte_bounds(staging.values[number])
                runtime.note_memory(low, high - low)
            ended = library.launch(launch.shape, launch.shared, launch.values)

        fresh = Fresh(staging, self.arrays, self.written)
        with runtime.compute_capability(launch.options.compute_capability), fresh.noted():
            found = runtime.observe(call, seed)
        arrays = {name: staging.values[number] for number, name in self.arrays.items()}
        reported = [
            with_functions(with_all_indices(each, arrays, self.draft.shapes), launch.functions) for each in found
        ]
        mistakes = [each for each in reported if each.is_mistake]
        outside = ended == Ended.OUT_OF_BOUNDS and not mistakes
        if (mistakes and launch.options.keep_going) or (outside and goes_on(launch.options)):
            contents.back()
            raise FallbackError("a launch continues after a finding")
        for each in reported:
            findings.record(each)
        if outside:
            self._report_end(ended, library, None, launch.options, launch.functions)
        if mistakes:
            raise (OutOfBounds if mistakes[0].kind == "out-of-bounds" else KernelFault)(*mistakes)
        if ended != Ended.WELL:
            raise LaunchError(library.message)


def _taking(parameter: DraftParameter) -> Callable[[Any], Any]:
    """The value of a C++ kernel's parameter for an argument."""
    dimension = parameter.dimension
    match parameter.kind:
        case "value":
            return lambda value: value if isinstance(value, (int, float)) else value.item()
        case "array":
            return lambda array: array.__array_interface__["data"][0]
        case "length":
            return lambda array: array.shape[dimension]
        case "stride":
            return lambda array: array.strides[dimension] // array.itemsize
    return lambda array: array.size
