"""One cell of the matrix: an implementation on a device, with what its checks need."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from hypothesis.errors import FlakyFailure
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from trifold.build.paths import PATHS, gpu_paths
from trifold.cells import ImplementationKind
from trifold.errors import SpecError
from trifold.findings import KernelFault
from trifold.spec import Call, Limits, Result, Spec
from trifold.spec.call import Path, tensor_at
from trifold.verification.blame import is_of_check, place_of, words_of
from trifold.verification.calls import CallSource, Search, describe, dtypes_of
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.remote_errors import RaisedByOp
from trifold.verification.report import Failure
from trifold.verification.results import as_tuple, most_results
from trifold.verification.seeding import seed
from trifold.verification.source_numbers import numbers_in
from trifold.verification.tolerance import is_approximate
from trifold.workspace import OpFiles, Workspace

if TYPE_CHECKING:
    from trifold.verification.remote import OpProcess


Arguments = tuple[list[Any], dict[str, Any]]

GPU_PATHS = "gpu paths"  # the check that runs a GPU's kernels on the CPU
_WITHOUT_GRADIENTS = "values"  # the check that computes none: another one may fail only where they are computed

_BY_CHECK = "the check could not go on with what the op, or a function of the spec, returned: "
_NOT_REPEATED = (
    "When the call was repeated, it did not fail, or failed differently: the op depends on more than its arguments, "
    "such as uninitialised memory, or the order of threads."
)


class Callee(Protocol):
    """What a cell calls: the op in this process (:class:`trifold.implementation.Implementation`) or in another."""

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
    """An implementation that runs in the op's process.

    Attributes:
        operators: the names of the operators that it registers.
        differentiable: whether its wiring states a gradient.
    """

    kind: ImplementationKind
    files: OpFiles
    process: OpProcess
    operators: tuple[str, ...]
    differentiable: bool = True

    @property
    def function(self) -> Callable[..., Any]:
        """Calls the op's public function in its process."""
        return self.process.function


@dataclass(frozen=True)
class Origins:
    """Whether kernels of the op wrote the results of the calls that the ``findings`` check made.

    Attributes:
        cases, dtypes: how many calls, and the dtypes of their tensors.
        failure: for the first result that no kernel of the op wrote; None: all were written by kernels.
    """

    cases: int
    dtypes: frozenset[str]
    failure: CheckFailed | None


@dataclass
class Cell(CallSource):
    """An implementation on a device.

    Attributes:
        announce: called with each case's name before it runs, so that a death of the judge is reported for that case.
        guarded: the op's process in which memory can be guarded; None: memory cannot be guarded.
        cases: the number of cases in the current check so far.
        dtypes: of the tensors in those cases.
        current: the running case and its name.
        calls: those that the values check compared; the sensitivity check uses them.
        compared_all: whether that check made all its calls: it stops at the first wrong result.
        origins: recorded by the findings check for the origin check.
        accepted: findings of the current check that the user accepts: what, where, how often and why.
        met: the places of comments that accepted a finding in the findings check; None: that check has not run.
        launching: see :func:`trifold.verification.checks.instances.launching_calls`; None: not computed yet.
        known: the reference's results for small calls, see :meth:`trifold.verification.comparison.Expected.of`.
        taken: whether the op takes a floating dtype, see :func:`trifold.verification.checks.dtypes.takes`.

    Raises:
        SpecError: the spec names an argument that the reference does not have.
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
    compared_all: bool = False
    origins: Origins | None = None
    accepted: tuple[dict[str, Any], ...] = ()
    met: frozenset[str] | None = None
    launching: tuple[tuple[str, Call], ...] | None = None
    known: dict[str, Any] = field(default_factory=dict)
    taken: dict[torch.dtype, bool] = field(default_factory=dict)
    _kept: dict[tuple[Limits, int], list[Call]] = field(default_factory=dict)
    _strategies: dict[Limits, SearchStrategy[tuple[int, Call]]] = field(default_factory=dict)
    _results_are_known: bool = False

    def __post_init__(self) -> None:
        names = [p.name for p in self.parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if not names or len(names) < len(self.parameters):  # it may have more than its signature names
            return
        try:
            self.spec.require_parameters(names)
        except ValueError as error:
            raise SpecError(f"{self.implementation.files.spec}: {error}", "correct the name") from None

    @property
    def kind(self) -> str:
        return self.implementation.kind

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        files = self.implementation.files
        return numbers_in(Workspace(files.prototype.parent.parent), files, self.implementation.kind)

    @property
    def op(self) -> str:
        return self.implementation.files.name

    @property
    def process(self) -> OpProcess:
        """The op's process."""
        assert isinstance(self.implementation, Remote)
        return self.implementation.process

    @contextlib.contextmanager
    def running_guarded(self) -> Iterator[None]:
        """Within the context, the implementation runs in the process in which memory can be guarded.

        If that is another process than the usual one, it ends with the context.
        """
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
        """Count a case and announce it."""
        self.cases += 1
        self.current = call, sample
        self.announce(sample)
        self.dtypes |= dtypes_of(call) if call is not None else set()
        if isinstance(self.implementation, Remote):
            self.process.last_backward = None
            if call is not None:
                self.process.element_bytes = call.dtype.itemsize

    def invoke(self, call: Call, arguments: Arguments | None = None) -> tuple[Tensor, ...]:
        """The implementation's results for a call, as a flat tuple; then copies of the arguments that it wrote into."""
        return as_tuple(self.invoke_whole(call, arguments))

    def invoke_whole(self, call: Call, arguments: Arguments | None = None) -> Any:
        """As :meth:`invoke`, with the results as the function returned them, nested or None."""
        made = arguments or call.arguments(self.device)
        seed(call.seed)
        return self.with_written(call, self.implementation.function(*made[0], **made[1]), made)

    def refer(self, call: Call, arguments: Arguments | None = None, *, exact: bool = False) -> tuple[Tensor, ...]:
        """The reference's results, in the form of :meth:`invoke`.

        Args:
            exact: convert the arguments to the dtype in which the reference is exact: the spec's ``reference_dtype``.

        Raises:
            CheckFailed: the reference raised.
        """
        return as_tuple(self.refer_whole(call, arguments, exact=exact))

    def refer_whole(self, call: Call, arguments: Arguments | None = None, *, exact: bool = False) -> Any:
        """As :meth:`refer`, with the results as the reference returned them, nested or None."""
        made = arguments or call.arguments(self.device)
        if exact:
            made = self.converted(*made)
        seed(call.seed)
        try:
            return self.with_written(call, self.reference(*made[0], **made[1]), made)
        except Exception as error:
            raise CheckFailed(words_of(error, self.reference), call) from error

    def converted(self, args: list[Any], kwargs: dict[str, Any]) -> Arguments:
        """The arguments in the dtype in which the reference is exact, the spec's ``reference_dtype``."""
        return in_dtype_of(args, kwargs, self.spec.reference_dtype)

    def with_written(self, call: Call, result: Any, arguments: Arguments) -> Any:
        """``result``; for an op that writes into arguments, a pair of it and copies of these."""
        if not self.spec.writes:
            return result
        written = [tensor_at(arguments, path).clone() for path in self.written_paths(call)]
        return (result, written)

    # ------------------------------------------------------------------------ its arguments, results and gradients

    @property
    def differentiable(self) -> bool:
        """Whether the op has a gradient, by its spec or else by its wiring."""
        if self.spec.writes:
            return False
        stated = self.spec.gradients
        if stated is not None and stated.arguments is not None:
            return bool(stated.arguments)
        return self.implementation.differentiable

    def require_differentiable(self) -> None:
        """Raises ``NotRun`` for an op that has no gradient."""
        if not self.differentiable:
            stated = self.spec.gradients is not None
            raise NotRun(Absence.NO_GRADIENT, "Spec(gradients=...)" if stated else "ports/*.py states no op.autograd")

    def gradient_paths(self, call: Call) -> list[Path]:
        """The paths of the arguments that have a gradient."""
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
        return [n for n, result in enumerate(results) if is_approximate(result)]

    def written_paths(self, call: Call) -> list[Path]:
        """The paths of the arguments that the op writes into."""
        return [path for path, _ in call.cases() if self._parameter(path) in self.spec.writes]

    def name(self, path: Path) -> str:
        """The name of an argument: its parameter of the reference, with indices within lists."""
        return self._parameter(path) + "".join(f"[{index}]" for index in path[1:])

    def name_of_result(self, call: Call, number: int, results: Sequence[Tensor]) -> str:
        """The name of a result: "the result", "result 1", or "x after the call" for an argument written into."""
        written = self.written_paths(call)
        returned = len(results) - len(written)
        if number >= returned:
            return f"{self.name(written[number - returned])} after the call"
        return "the result" if returned == 1 else f"result {number}"

    def _parameter(self, path: Path) -> str:
        if isinstance(path[0], str):
            return path[0]
        names = [p.name for p in self.parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return names[path[0]] if path[0] < len(names) else f"argument {path[0]}"

    @functools.cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """The reference's parameters; empty for a builtin function of torch, which has no signature."""
        try:
            return tuple(inspect.signature(self.reference).parameters.values())
        except ValueError:
            return ()

    def is_unordered(self, call: Call) -> bool:
        """Whether the bits of the call's results may depend on the order of threads, by the spec."""
        if not self.spec.unordered or not self.spec.ordered:
            return bool(self.spec.unordered)
        given = {p.name: p.default for p in self.parameters}
        given |= {self._parameter((i,)): value for i, value in enumerate(call.args)} | dict(call.kwargs)
        return any(given.get(name) != value for name, value in self.spec.ordered.items())

    def how_compared(self, number: int) -> Result:
        """How the spec says to compare a result."""
        return self.spec.results[number] if number < len(self.spec.results) else Result()

    # ------------------------------------------------------------------------------------------------------ cases

    def for_each_call(
        self,
        test: Callable[[Call], None],
        *,
        examples: int | None = None,
        fixed: Iterable[tuple[str, Call]] | None = None,
    ) -> None:
        """Run ``test`` on the fixed calls and on drawn ones; a failing drawn call is shrunk.

        Args:
            examples: the number of drawn calls; None: that of the search.
            fixed: other named calls in place of :meth:`fixed_calls`.

        Raises:
            CheckFailed: ``test`` raised, with the call. The message says so if the failure did not repeat.
        """
        for name, call in self.fixed_calls() if fixed is None else fixed:
            self.run_case(test, call, name)
        for number in range(self.search.examples if examples is None else examples):
            for call in self._drawn(self.limits, number):
                try:
                    self.run_case(test, call)
                except CheckFailed as first:
                    with contextlib.suppress(FlakyFailure):  # it names hypothesis's own lines, and no call
                        self._shrink(lambda call: self.run_case(test, call), self.limits, number)
                    unlike = not is_of_check(first.__cause__, self.implementation.files, self.reference)
                    message = f"{first.message}\n{_NOT_REPEATED}" if unlike else first.message
                    raise CheckFailed(message, first.call, first.sample, first.findings) from first.__cause__

    def run_case(self, test: Callable[[Call], object], call: Call, sample: str = "") -> None:
        """Run ``test`` on one call, as one case.

        Raises:
            CheckFailed: ``test`` raised anything but ``NotRun``, with the call.
            NotRun: ``test`` raised it.
        """
        self.begin(call, sample)
        try:
            self._require_results(call)
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
            by_check = _BY_CHECK if is_of_check(error, self.implementation.files, self.reference) else ""
            raise CheckFailed(misfit or by_check + words_of(error, self.reference), call, sample) from error

    def _require_results(self, call: Call) -> None:
        """Raises ``SpecError``, in the first case of the cell, if the spec names a result that the reference does not
        return."""
        if self._results_are_known or not self.spec.names_results:
            return
        whole = self.refer_whole(call)
        count = most_results(whole[0] if self.spec.writes else whole)
        try:
            if count is not None:
                self.spec.require_results(count)
        except ValueError as error:
            raise SpecError(f"{self.implementation.files.spec}: {error}", "correct the spec") from None
        self._results_are_known = True

    def _misfit(self, call: Call) -> str:
        """Why a call of the spec does not match the reference's signature; "" if it does, or if that is unknown."""
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

    def died(self, error: BaseException, check: str) -> Failure:
        """The failure of the running case, whose process ended or did not answer with ``error``."""
        call, sample = self.current
        return self.failure(CheckFailed(str(error), call, sample), check)

    def raised(self, error: BaseException, check: str) -> Failure:
        """The failure by an exception that the check does not expect. If the op raised it, it is of the running
        case."""
        call, sample = self.current if isinstance(error, RaisedByOp | KernelFault) else (None, "")
        failed = CheckFailed(words_of(error, self.reference), call, sample)
        failed.__cause__ = error
        return self.failure(failed, check)

    def failure(self, error: CheckFailed, check: str) -> Failure:
        """A failure of the check of this name for the report, with the line that raised its cause, and with a program
        that repeats it."""
        code = self._code(error.call, error, check) if error.call else ""
        name = error.sample or (describe(error.call) if error.call else "")
        findings = tuple(finding.to_json() for finding in error.findings)
        place = place_of(error.__cause__, self.implementation.files, self.reference)
        message = f"{place}: {error.message}" if place else error.message
        return Failure(message, name, code, self.search.seed, findings)

    def _code(self, call: Call, error: CheckFailed, check: str) -> str:
        port_on_cpu = (self.kind, self.device) == ("port", "cpu")
        gradients: Sequence[Path] = self.gradient_paths(call) if check != _WITHOUT_GRADIENTS else ()
        kind, through = None, None
        if gradients and self.current[0] is call and isinstance(self.implementation, Remote):
            last = self.process.last_backward
            kind = last.kind(call.dtype, call.seed) if last else None
            if last and kind:
                gradients, through = last.asked, last.through
        return call.code(
            self.op,
            self.device,
            self.kind,
            gradients=gradients,
            writes=self.written_paths(call),
            upstream=kind or "usual",
            through=through,
            schedule=error.findings[0].seed if error.findings and self.device == "cpu" else None,
            environment={PATHS: "gpu"} if port_on_cpu and (check == GPU_PATHS or gpu_paths()) else None,
        )


def in_dtype_of(args: list[Any], kwargs: dict[str, Any], dtype: torch.dtype) -> Arguments:
    """Copies of arguments, with floating tensors in ``dtype`` and complex ones in its complex counterpart.

    So are arguments that are dtypes, for results in them are exact only then; those of 8 bits are not, since results in
    float8 are compared as integers.
    """

    def convert(value: Any) -> Any:
        if isinstance(value, torch.dtype) and value.itemsize > 1:
            return dtype if value.is_floating_point else dtype.to_complex() if value.is_complex else value
        if isinstance(value, list | tuple):
            return type(value)(map(convert, value))
        if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
            # a copy, since the reference may write into its arguments
            return value.clone() if isinstance(value, Tensor) else value
        wanted = dtype.to_complex() if value.is_complex() else dtype
        return value.detach().to(wanted, copy=True).requires_grad_(value.requires_grad)

    return [convert(value) for value in args], {name: convert(value) for name, value in kwargs.items()}
