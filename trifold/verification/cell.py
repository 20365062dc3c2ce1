"""One cell of the matrix: an implementation on a device, with what its checks need."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import hypothesis
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import FlakyFailure
from torch import Tensor

from trifold.build.paths import gpu_paths
from trifold.cells import ImplementationKind
from trifold.findings import Finding, KernelFault
from trifold.spec import Call, IndexCase, Limits, Result, Spec, TensorCase
from trifold.spec.call import Path, tensor_at
from trifold.verification.report import Failure
from trifold.verification.seeding import seed
from trifold.workspace import OpFiles

if TYPE_CHECKING:
    from trifold.verification.remote import OpProcess


Arguments = tuple[list[Any], dict[str, Any]]

_SWEPT_FROM = 5  # examples: with fewer, calls of one power of two are swept alone
# Fills of numbers at which a reference is exact itself; elsewhere only where it is finite is compared of gradients.
ORDINARY = ("exact", "normal", "zero", "tiny")
_SMALL = 4096  # elements, of the calls that stand for smooth ones
_SMALL_CALLS = 3
_ABOVE_A_BLOCK = 11  # of two: more elements than a block has threads
_WARP = 32
_WARPS_BEFORE = 7  # at most so many in a call that is about its tail
_NOT_REPEATED = (
    "When the call was repeated, it did not fail, or failed differently: the op depends on more than its arguments, "
    "such as memory that nobody has written, or the order of threads."
)
_TAILS = 5000  # what the draws of these calls are salted with, and one more each
_NATIVE = 6000  # likewise
_MANY = 7000  # likewise
_NATIVE_ROWS = range(1025, 4097)


class CheckFailed(Exception):
    """A check found something wrong.

    Attributes:
        call, sample: with which call, and its name if it has one.
        findings: of the execution engine, where it is what found it.
    """

    def __init__(
        self, message: str, call: Call | None = None, sample: str = "", findings: tuple[Finding, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.call = call
        self.sample = sample
        self.findings = findings


class Absence(StrEnum):
    """Why a row may be absent from a verified op: the beginnings of all reasons that count. No op can add to them."""

    NO_GUARD = "the guard allocator is not loaded in the op's process: its library needs Linux and glibc"
    NOT_GUARDED = "torch's CPU allocator does not go through posix_memalign here, so nothing is guarded"
    NO_DEVICE_GUARD = "memory of the GPU cannot be guarded in the op's process"
    NOT_ON_CPU = "the port cannot run on the CPU"
    NO_SANITIZER = "there is no compute-sanitizer on this machine"
    SANITIZER_FAILS = "compute-sanitizer does not work on this machine, not even on a kernel of torch's"
    ONE_GPU = "this machine has one CUDA device"
    SMALL_GPU = "the GPU has too little memory"
    NO_GRADIENT = "no gradient on purpose"
    SAME_KERNELS = "a GPU takes the same kernels"
    NO_BUILD = "Numba compiles a prototype when it is launched: there is no build to add pauses to"
    NOT_CLAIMED = "the spec claims no single rounding of half types (Spec(rounded_once=...))"


class NotRun(Exception):
    """A check does not apply to this cell, or cannot run on this machine."""

    def __init__(self, absence: Absence, detail: str = "") -> None:
        super().__init__(f"{absence}: {detail}" if detail else str(absence))


@dataclass(frozen=True)
class Search:
    """How calls are drawn.

    Attributes:
        examples: how many for each check that draws.
        seed: of the drawing; None: the same for every run.
    """

    examples: int
    seed: int | None = None


class Callee(Protocol):
    """What a cell calls: the op here (:class:`trifold.implementation.Implementation`), or in a process of its own."""

    @property
    def kind(self) -> ImplementationKind: ...
    @property
    def files(self) -> OpFiles: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def differentiable(self) -> bool: ...


@dataclass(frozen=True)
class Remote:
    """An implementation in a process of its own.

    Attributes:
        operators: the names of those that it registers.
        differentiable: whether it states a gradient.
    """

    kind: ImplementationKind
    files: OpFiles
    process: OpProcess
    operators: tuple[str, ...]
    differentiable: bool = True

    @property
    def function(self) -> Callable[..., Any]:
        """As the op's public function, in its own process."""
        return self.process.function


@dataclass(frozen=True)
class Origins:
    """Who wrote the results of the calls that ``findings`` made.

    Attributes:
        cases, dtypes: of these calls.
        failure: of the first result that no kernel of the op wrote.
    """

    cases: int
    dtypes: frozenset[str]
    failure: CheckFailed | None


@dataclass
class Cell:
    """An implementation on a device.

    Attributes:
        announce: is told of each case before it runs, so that it can be blamed for what the judge itself dies of.
        guarded: the op's process in which memory can be guarded; None: there is none.
        cases: how many were announced in the current check.
        dtypes: of the tensors in those cases.
        current: the case that runs, and its name.
        calls: those that the values check compared, for the sensitivity check.
        origins: what the findings check recorded, for the check of what is written.
        accepted: findings of the current check that the user accepts: what, where, how often and why.
        met: the places of comments that accepted a finding in the findings check; None: it has not run.
        launching: see :func:`trifold.verification.checks.instances.launching_calls`; None: not known yet.
    """

    spec: Spec
    implementation: Callee
    device: str
    reference: Callable[..., Any]
    search: Search
    limits: Limits
    announce: Callable[[str], None]
    guarded: OpProcess | None = None
    cases: int = 0
    dtypes: set[str] = field(default_factory=set)
    current: tuple[Call | None, str] = (None, "")
    calls: list[Call] = field(default_factory=list)
    origins: Origins | None = None
    accepted: tuple[dict[str, Any], ...] = ()
    met: frozenset[str] | None = None
    launching: tuple[tuple[str, Call], ...] | None = None
    _kept: dict[tuple[Limits, int], list[Call]] = field(default_factory=dict)  # drawn calls, by limits and salt

    @property
    def kind(self) -> str:
        return self.implementation.kind

    @property
    def op(self) -> str:
        return self.implementation.files.name

    @property
    def simulated(self) -> bool:
        """Whether kernels run in the simulator, a million threads a second."""
        return (self.kind, self.device) == ("prototype", "cpu")

    @property
    def process(self) -> OpProcess:
        """The op's process."""
        assert isinstance(self.implementation, Remote)
        return self.implementation.process

    @contextlib.contextmanager
    def running_guarded(self) -> Iterator[None]:
        """The implementation runs in the process in which memory can be guarded; one of its own ends afterwards."""
        usual = self.implementation
        if not isinstance(usual, Remote) or self.guarded is None or self.guarded is usual.process:
            yield
            return
        self.implementation = replace(usual, process=self.guarded)
        try:
            yield
        finally:
            self.implementation = usual
            self.guarded.close()

    def begin(self, call: Call | None, sample: str = "") -> None:
        """Count a case, and say that it is about to run."""
        self.cases += 1
        self.current = call, sample
        self.announce(sample)
        self.dtypes |= _dtypes(call) if call is not None else set()
        if call is not None and isinstance(self.implementation, Remote):
            self.process.element_bytes = call.dtype.itemsize

    def invoke(self, call: Call, arguments: Arguments | None = None) -> tuple[Tensor, ...]:
        """The implementation's results for a call, as a tuple; after them the arguments that it writes into, as copies
        of what they are then."""
        return as_tuple(self.invoke_whole(call, arguments))

    def invoke_whole(self, call: Call, arguments: Arguments | None = None) -> Any:
        """As :meth:`invoke`; the results as the function gives them, nested or None."""
        made = arguments or call.arguments(self.device)
        seed(call.seed)
        return self.with_written(call, self.implementation.function(*made[0], **made[1]), made)

    def refer(self, call: Call, arguments: Arguments | None = None, *, exact: bool = False) -> tuple[Tensor, ...]:
        """The reference's results, as :meth:`invoke` has them; with ``exact``, on the arguments in float64 or what the
        spec says."""
        return as_tuple(self.refer_whole(call, arguments, exact=exact))

    def refer_whole(self, call: Call, arguments: Arguments | None = None, *, exact: bool = False) -> Any:
        """As :meth:`refer`; the results as the reference gives them, nested or None."""
        made = arguments or call.arguments(self.device)
        if exact:
            made = self.converted(*made)
        seed(call.seed)
        try:
            return self.with_written(call, self.reference(*made[0], **made[1]), made)
        except Exception as error:
            raise CheckFailed(f"the reference itself raised {type(error).__name__}: {error}", call) from error

    def converted(self, args: list[Any], kwargs: dict[str, Any]) -> Arguments:
        """The arguments in the dtype in which the reference is exact."""
        return in_dtype_of(args, kwargs, self.spec.reference_dtype)

    def with_written(self, call: Call, result: Any, arguments: Arguments) -> Any:
        """A result, and with it copies of the arguments that the op writes into."""
        if not self.spec.writes:
            return result
        written = [tensor_at(arguments, path).clone() for path in self.written_paths(call)]
        return (result, written)

    # ------------------------------------------------------------------------------------------------- what it is

    @property
    def differentiable(self) -> bool:
        """Whether the op has a gradient: what the spec says, or what the wiring states."""
        if self.spec.writes:
            return False
        stated = self.spec.gradients
        if stated is not None and stated.arguments is not None:
            return bool(stated.arguments)
        return self.implementation.differentiable

    def require_differentiable(self) -> None:
        """Raises ``NotRun`` where there is no gradient, on purpose."""
        if not self.differentiable:
            stated = self.spec.gradients is not None
            raise NotRun(Absence.NO_GRADIENT, "Spec(gradients=...)" if stated else "ports/*.py states no op.autograd")

    def gradient_paths(self, call: Call) -> list[Path]:
        """The places of the arguments that have a gradient."""
        if not self.differentiable:
            return []
        stated = self.spec.gradients
        names = None if stated is None else stated.arguments
        return [path for path, _ in call.floating() if names is None or self._parameter(path) in names]

    def gradient_results(self, results: Sequence[Tensor]) -> list[int]:
        """The positions of the results that have a gradient."""
        stated = self.spec.gradients
        if stated is not None and stated.results is not None:
            return [number for number in stated.results if number < len(results)]
        return [n for n, result in enumerate(results) if result.is_floating_point() or result.is_complex()]

    def written_paths(self, call: Call) -> list[Path]:
        """The places of the arguments that the op writes into."""
        return [path for path, _ in call.cases() if self._parameter(path) in self.spec.writes]

    def name(self, path: Path) -> str:
        """What an argument is called: the name of the reference's parameter."""
        return self._parameter(path) + "".join(f"[{index}]" for index in path[1:])

    def name_of_result(self, number: int, results: Sequence[Tensor]) -> str:
        """ "the result", "result 1", or "x after the call" of an argument that the op writes into."""
        returned = len(results) - len(self.spec.writes)
        if number >= returned:
            return f"{self.spec.writes[number - returned]} after the call"
        return "the result" if returned == 1 else f"result {number}"

    def _parameter(self, path: Path) -> str:
        if isinstance(path[0], str):
            return path[0]
        names = [p.name for p in self.parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return names[path[0]] if path[0] < len(names) else f"argument {path[0]}"

    @functools.cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """The reference's; none of a builtin function of torch's."""
        try:
            return tuple(inspect.signature(self.reference).parameters.values())
        except ValueError:
            return ()

    def how_compared(self, number: int) -> Result:
        """What the spec says of a result."""
        return self.spec.results[number] if number < len(self.spec.results) else Result()

    # ----------------------------------------------------------------------------------------------------- calls

    def small_calls(self) -> list[Call]:
        """The smooth calls; of an op that has none, small ones of ordinary numbers among samples, edges and drawn
        ones."""
        if self.spec.smooth:
            return list(self.spec.smooth)
        fixed = [call for _, call in self.fixed_calls() if 0 < call.elements <= _SMALL and is_ordinary(call)]
        if len(fixed) >= _SMALL_CALLS:
            return fixed[:_SMALL_CALLS]
        drawn = self.drawn_calls(Limits(elements=64), 8 * _SMALL_CALLS, salt=2000)
        ordinary = [call for call in drawn if call.elements > 0 and is_ordinary(call)]
        return (fixed + ordinary + drawn)[:_SMALL_CALLS]

    def fixed_calls(self) -> Iterator[tuple[str, Call]]:
        """The spec's samples and edges, by name; with those of a GPU where the kernels are those of a GPU."""
        for sample in self.spec.samples:
            yield sample.name, sample.call
        for call in self.spec.edges:
            if all(math.prod(case.shape) <= self.limits.elements for _, case in call.cases()):
                yield "edge", call
        if self.device == "cuda" or (self.kind == "port" and gpu_paths()):
            yield from self.gpu_calls()

    def gpu_calls(self) -> Iterator[tuple[str, Call]]:
        """The spec's calls for kernels that a GPU alone takes, by name."""
        for call in self.spec.gpu_edges:
            yield "edge of a GPU", call

    def for_each_call(self, test: Callable[[Call], None], *, examples: int | None = None, fixed: bool = True) -> None:
        """Run ``test`` on the fixed calls and on drawn ones; a failing drawn call is shrunk.

        Raises:
            CheckFailed: with the call. Any other exception of ``test`` is reported as one. If the same call does not
                fail in the same way when it is repeated, the message says so.
        """
        for name, call in self.fixed_calls() if fixed else ():
            self.run_case(test, call, name)
        for number in range(self.search.examples if examples is None else examples):
            for call in self._drawn(self.limits, number):
                try:
                    self.run_case(test, call)
                except CheckFailed as first:
                    with contextlib.suppress(FlakyFailure):  # it names hypothesis's own lines, and no call
                        self._shrink(lambda call: self.run_case(test, call), self.limits, number)
                    message = f"{first.message}\n{_NOT_REPEATED}"
                    raise CheckFailed(message, first.call, first.sample, first.findings) from first.__cause__

    def drawn_calls(self, limits: Limits, count: int, *, salt: int = 0) -> list[Call]:
        """Calls drawn within ``limits``: the same for each run of one seed."""
        return [call for number in range(count) for call in self._drawn(limits, salt + number)]

    def _drawn(self, limits: Limits, salt: int) -> list[Call]:
        """One call, of salt 0 two: each check that asks has the same, which are drawn once."""
        if (limits, salt) not in self._kept:
            kept: list[Call] = []
            self._search(kept.append, limits, salt, (Phase.generate,))
            self._kept[limits, salt] = kept
        return self._kept[limits, salt]

    def _shrink(self, test: Callable[[Call], None], limits: Limits, salt: int) -> None:
        """Raises what ``test`` does on the simplest call that hypothesis finds near one that was drawn and fails."""
        self._search(test, limits, salt, (Phase.generate, Phase.shrink))

    def _search(self, test: Callable[[Call], None], limits: Limits, salt: int, phases: tuple[Phase, ...]) -> None:
        """Run ``test`` on one call.

        Hypothesis begins with the simplest call, which would be the same each time and is left out; and in one long
        search, half of its calls are variations of earlier ones.
        """
        calls = 0
        simplest: Call | None = None

        def draw(call: Call) -> None:
            nonlocal calls, simplest
            calls += 1
            simplest = simplest or call
            if calls > 1:
                test(call)

        configured = settings(
            max_examples=2,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        )(hypothesis.given(self.spec.calls(limits))(draw))
        hypothesis.seed((self.search.seed or 0) * 1009 + salt)(configured)()
        if simplest is not None and (salt == 0 or calls == 1):
            test(simplest)

    def swept_calls(self, *, below: int | None = None) -> Iterator[Call]:
        """A call of each power of two of elements, up to 2^20 where kernels are compiled: sizes on no list."""
        most = below or (14 if self.simulated else 21)
        for power in range(4, most) if self.search.examples >= _SWEPT_FROM else (_ABOVE_A_BLOCK,):
            yield from self.drawn_calls(Limits(elements=2 ** (power + 1) - 1, fewest=2**power), 1, salt=power)

    def native_call(self) -> Call | None:
        """A large call for a prototype as native code: of some thousand rows and of float32, if such are drawn.

        Each dtype takes a build. So many rows are more than a grid that is too small has blocks. Threads that shuffle
        have a stack each, and meet some twenty times in a row: 19,000 rows, a block each, take 4 s.
        """
        if not self.simulated or self.search.examples < _SWEPT_FROM:
            return None
        with contextlib.suppress(Exception):  # the spec's, or hypothesis's
            calls = self.drawn_calls(Limits(elements=2**20 - 1, fewest=2**19), 12, salt=_NATIVE)
            return min(calls, key=lambda call: (rows_of(call) not in _NATIVE_ROWS, call.dtype != torch.float32))
        return None

    def call_of_rows(self, least: int, elements: int) -> Call | None:
        """A call with a tensor of at least so many rows, and of fewer than ``elements``, where kernels are compiled and
        the spec draws one. Not of float64, in which ops on rows give each row a block."""
        if self.simulated or self.search.examples < _SWEPT_FROM:
            return None
        with contextlib.suppress(Exception):  # the spec's, or hypothesis's
            drawn = self.drawn_calls(Limits(elements=elements - 1, fewest=elements // 2), 24, salt=_MANY)
            enough = [call for call in drawn if rows_of(call) >= least and call.dtype != torch.float64]
            return min(enough, key=lambda call: (call.dtype != torch.float32, call.elements), default=None)
        return None

    def tail_calls(self) -> Iterator[Call]:
        """A call of each remainder that a number of elements can leave by 32: what a warp, or a vector of any width,
        has left over at the end. An op that has no call of just so many elements has none of that remainder."""
        for tail in range(_WARP if self.search.examples >= _SWEPT_FROM else 0):
            # Of a few such numbers that with the most divisors: the shapes are not all a row or a column.
            some = (_WARP * (1 + (tail + k) % _WARPS_BEFORE) + tail for k in range(4))
            elements = max(some, key=lambda n: sum(n % d == 0 for d in range(2, n)))
            calls: list[Call] = []
            with contextlib.suppress(Exception):  # the spec's, or hypothesis's
                calls = self.drawn_calls(Limits(elements=elements, fewest=elements), 1, salt=_TAILS + tail)
            yield from calls

    def run_case(self, test: Callable[[Call], object], call: Call, sample: str = "") -> None:
        """Run ``test`` on one call; whatever it raises but ``NotRun`` becomes a ``CheckFailed`` with the call."""
        self.begin(call, sample)
        try:
            test(call)
        except CheckFailed as error:
            raise CheckFailed(
                error.message, error.call or call, error.sample or sample, error.findings
            ) from error.__cause__
        except NotRun:
            raise
        except KernelFault as fault:
            raise CheckFailed(str(fault), call, sample, fault.findings) from fault
        except Exception as error:
            misfit = self._misfit(call) if isinstance(error, TypeError) else ""
            raise CheckFailed(misfit or f"{type(error).__name__}: {error}", call, sample) from error

    def _misfit(self, call: Call) -> str:
        """Why the reference cannot take a call of the spec's; "" if it can, or if that is not known."""
        try:
            signature = inspect.signature(self.reference)
        except ValueError:  # a builtin function of torch's
            return ""
        try:
            signature.bind(*call.args, **call.kwargs)
        except TypeError as error:
            parameters = ", ".join(signature.parameters)
            return f"the spec makes a call that does not fit the reference's parameters ({parameters}): {error}"
        return ""

    def died(self, error: BaseException, *, backward: bool = False) -> Failure:
        """Of the case that runs: the op's process has ended, or does not answer."""
        call, sample = self.current
        return self.failure(CheckFailed(str(error), call, sample), backward=backward)

    def failure(self, error: CheckFailed, *, backward: bool = False) -> Failure:
        """What a report has of it; with ``backward``, the program that repeats it asks for gradients."""
        paths = self.gradient_paths(error.call) if backward and error.call else []
        code = error.call.code(self.op, self.device, self.kind, gradients=paths) if error.call else ""
        name = error.sample or (describe(error.call) if error.call else "")
        findings = tuple(finding.to_json() for finding in error.findings)
        return Failure(error.message, name, code, self.search.seed, findings)


def is_ordinary(call: Call) -> bool:
    """Whether its numbers are such as nothing overflows or vanishes of."""
    return all(case.fill in ORDINARY for _, case in call.floating())


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    """All tensors of a result, whatever tuples and lists they stand in; without None."""
    if isinstance(result, tuple | list):
        return tuple(itertools.chain.from_iterable(map(as_tuple, result)))
    return () if result is None else (result,)


def form_of_whole(result: Any) -> str:
    """How a result is made up of tensors: "a tensor", "(a tensor, None)"."""
    if isinstance(result, list):
        return f"[{', '.join(map(form_of_whole, result))}]"
    if isinstance(result, tuple):
        return f"({', '.join(map(form_of_whole, result))})"
    return "a tensor" if isinstance(result, Tensor) else repr(result)


def in_dtype_of(args: list[Any], kwargs: dict[str, Any], dtype: torch.dtype) -> Arguments:
    """Arguments with floating tensors in ``dtype``, and complex ones in the complex dtype of its precision."""

    def convert(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(convert, value))
        if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
            # The reference may write into its arguments.
            return value.clone() if isinstance(value, Tensor) else value
        wanted = dtype.to_complex() if value.is_complex() else dtype
        return value.detach().to(wanted, copy=True).requires_grad_(value.requires_grad)

    return [convert(value) for value in args], {name: convert(value) for name, value in kwargs.items()}


def describe(call: Call) -> str:
    """A call in one line: "(3, 5) float32 sliced special; …"."""

    def described(value: Any) -> str:
        if isinstance(value, TensorCase):
            return f"{value.shape} {str(value.dtype).removeprefix('torch.')} {value.layout} {value.fill}"
        if isinstance(value, IndexCase):
            return f"{value.shape} indices {value.layout}"
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(described, value))}]"
        return repr(value)

    return "; ".join(map(described, (*call.args, *call.kwargs.values())))


def _dtypes(call: Call) -> set[str]:
    return {str(case.dtype).removeprefix("torch.") for _, case in call.cases() if isinstance(case, TensorCase)}


def rows_of(call: Call) -> int:
    """The most rows that a tensor of it has."""
    shapes = [case.shape for _, case in call.cases()]
    return max((math.prod(shape[:-1]) for shape in shapes), default=0)
