"""The requirements of an op: ``verify/<op>.py`` holds one :class:`Spec` named ``spec``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from torch import Tensor

from trifold.cells import Device, ImplementationKind
from trifold.errors import SpecError
from trifold.spec.benchmark import Benchmark
from trifold.spec.call import Call, require_call
from trifold.spec.choices import require_one_of
from trifold.spec.results import Gradients, Result
from trifold.spec.strategies import Strategy

# The op's own scale: from the reference and the call's arguments, tensors in float64, to one tensor for each result.
Scale = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class Sample:
    """A call that must be among those checked.

    Attributes:
        name: short, for reports and for ``trifold debug``.
        reason: which mistake it would reveal.
    """

    name: str
    call: Call
    reason: str

    def __post_init__(self) -> None:
        require_call(f"the call of Sample({self.name!r}, ...)", self.call)


@dataclass(frozen=True)
class BadCall:
    """A call that must raise an exception.

    Attributes:
        name: of the mistake.
        make: returns the arguments, for a device.
        mentions: words that the message must contain: the names of the arguments at fault.
        devices: on which the call is possible.
    """

    name: str
    make: Callable[[str], tuple[Sequence[Any], dict[str, Any]]]
    mentions: tuple[str, ...]
    devices: tuple[str, ...] = ("cpu", "cuda")

    def __post_init__(self) -> None:
        if isinstance(self.mentions, str):
            raise ValueError(f"BadCall(mentions=...) is a sequence of words: ({self.mentions!r},)")
        for device in self.devices:
            require_one_of("a device of BadCall(devices=...)", device, get_args(Device))
        object.__setattr__(self, "make", _checked(self.name, self.make))


_Make = Callable[[str], tuple[Sequence[Any], dict[str, Any]]]


def _checked(name: str, make: _Make) -> _Make:
    """``make`` of a bad call, with an error if it raises, or does not return the two kinds of arguments."""

    @functools.wraps(make)
    def made(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
        try:
            returned: Any = make(device)
        except Exception as error:
            raise SpecError(
                f"BadCall({name!r}, make=...): make itself raises {type(error).__name__}: {error}",
                "correct make: it only returns arguments, and the op refuses them",
            ) from error
        pair = isinstance(returned, list | tuple) and len(returned) == 2
        if not pair or not isinstance(returned[0], list | tuple) or not isinstance(returned[1], dict):
            raise SpecError(
                f"BadCall({name!r}, make=...): make returned {returned!r}",
                "return the positional arguments and those by keyword: ([x, y], {})",
            )
        return returned[0], returned[1]

    return made


@dataclass(frozen=True)
class Property:
    """Something that must hold beyond agreement with the reference.

    Attributes:
        name: of its row in the matrix.
        check: a function of the implementation's public function and a device (``"cpu"`` or ``"cuda"``); raises
            AssertionError.
        reason: why it must hold.
        devices: where it is checked. A property of only ``("cuda",)`` runs alone on the GPU: it may use most of its
            memory.
        implementations: for which it is checked.
        gpu_memory: bytes of a GPU's memory that the check takes in all, in its own process and in the op's. It waits
            until as much is free; on a GPU that has less it is not run.
    """

    name: str
    check: Callable[[Callable[..., Any], str], None]
    reason: str
    devices: tuple[str, ...] = ("cpu", "cuda")
    implementations: tuple[str, ...] = ("prototype", "port")
    gpu_memory: int = 0

    def __post_init__(self) -> None:
        for device in self.devices:
            require_one_of("a device of Property(devices=...)", device, get_args(Device))
        for kind in self.implementations:
            require_one_of("an entry of Property(implementations=...)", kind, get_args(ImplementationKind))


def large(
    check: Callable[[Callable[..., Any], str], None],
    *,
    gpu_memory: int,
    name: str = "large",
    reason: str = "an index in 32 bits wraps at 2³¹ elements",
) -> Property:
    """A property of the port on a GPU alone: calls that take much of its memory. Arguments are those of
    :class:`Property`."""
    return Property(name, check, reason, devices=("cuda",), implementations=("port",), gpu_memory=gpu_memory)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The requirements of an op.

    Attributes:
        calls: a hypothesis strategy of calls, for given limits (:func:`trifold.spec.elementwise`).
        samples: calls that are always checked, with their reasons.
        edges: further calls that are always checked: those that reach each branch of the port.
        gpu_edges: further calls, for kernels that the port launches only on a GPU (``trifold::gpu_paths``): checked on
            GPUs, and on the CPU by the row ``gpu paths``. They may be larger than edges.
        smooth: small contiguous float64 calls at points where the op is differentiable: for gradcheck, and (as float32)
            for float32 gradcheck, opcheck and torch.compile. An op without gradient needs none: checks that need small
            calls then use samples, edges and drawn ones.
        gradients: which arguments and results have one; default: all floating tensors if ``ports/<op>.py`` states
            ``op.autograd``, else none. Rows that do not apply are not run.
        results: how each is compared; default: as :class:`Result` describes for its type.
        writes: names of the arguments that the op writes into, which its schema must declare (``Tensor(a!)``). They are
            compared after the call, as further results.
        views: maps the position of a result to the name of the argument whose memory it shares.
        reference_dtype: a dtype in which the reference is exact: its floating arguments are converted to it instead of
            float64.
        bad_calls: calls that must raise.
        properties: further requirements, each a row.
        scale: the size of the numbers that are rounded, from (reference, arguments...); default: the reference on
            absolute values. The exact result is used where it is larger.
        working_scale: likewise, in round-offs of the type that the op computes in: float32 for half types. The two
            bounds are added, so that rounding inside the op does not loosen the bound for half types.
        gradient_scale: likewise for the gradient of each tensor argument, from (reference, grad_output...,
            arguments...); default: the reference's gradient on absolute values.
        gradient_working_scale: likewise, in round-offs of the type that the op computes in.
        multiple: the accepted error of a result, in unit round-offs times the scale.
        multiple_reason: why, if it is not 4.
        surrogate: why the gradient is declared rather than derived, if it is. Gradcheck then compares with the
            reference's rule, and requires that a numerical gradcheck fails.
        random: the result depends on torch's generator.
        not_on_cpu: why the port cannot run on the CPU, if it cannot.
        computed_by_torch: what torch computes instead of a kernel of the op: maps ``"result 0"`` or ``"gradient 1"``
            (of the positional argument 1) to the reason.
        rounded_once: states, and where this is documented, that results in float16 and bfloat16 are computed in a wider
            type and rounded once, to nearest even. A result must then equal, bit for bit, the rounded value of some
            number within ``rounding_error`` of the exact one.
        gradients_rounded_once: likewise for gradients, unless one tensor is two arguments: autograd then adds two of
            them.
        rounding_error: the accepted error of a result before it is rounded, in round-offs of float32, from (reference,
            arguments...), to one tensor for each result; default: ``multiple`` times the sum of ``scale`` and
            ``working_scale``.
        gradient_rounding_error: likewise for the gradient of each tensor argument, from (reference, grad_output...,
            arguments...); default: by ``gradient_scale`` and ``gradient_working_scale``.
        unordered: why the bits of a result may depend on the order in which blocks and threads run, if they may: for
            example a floating sum by atomics.
        ordered: values of parameters for which the bits do not depend on it all the same, by the reference's names:
            ``{"deterministic": True}``.
        waits_for_gpu: why a call waits for a GPU, if it does: it reads a number from a tensor, on which the size of a
            result, or the number of launches, depends. The fake may then leave sizes open, by
            ``torch.library.get_ctx().new_dynamic_size()``.
        zero_signs: why the sign of a zero in the result may differ from the reference's, if it may.
        finite_gradients: why a gradient may be finite where the reference's is nan or inf.
        benchmarks: what ``trifold bench`` measures.
    """

    calls: Strategy
    smooth: Sequence[Call] = ()
    gradients: Gradients | None = None
    results: Sequence[Result] = ()
    writes: Sequence[str] = ()
    views: Mapping[int, str] = field(default_factory=dict)
    reference_dtype: torch.dtype = torch.float64
    samples: Sequence[Sample] = ()
    edges: Sequence[Call] = ()
    gpu_edges: Sequence[Call] = ()
    bad_calls: Sequence[BadCall] = ()
    properties: Sequence[Property] = ()
    scale: Scale | None = None
    working_scale: Scale | None = None
    gradient_scale: Scale | None = None
    gradient_working_scale: Scale | None = None
    multiple: float = 4.0
    multiple_reason: str = ""
    surrogate: str = ""
    random: bool = False
    not_on_cpu: str = ""
    computed_by_torch: Mapping[str, str] = field(default_factory=dict)
    rounded_once: str = ""
    gradients_rounded_once: str = ""
    rounding_error: Scale | None = None
    gradient_rounding_error: Scale | None = None
    unordered: str = ""
    ordered: Mapping[str, Any] = field(default_factory=dict)
    waits_for_gpu: str = ""
    zero_signs: str = ""
    finite_gradients: str = ""
    benchmarks: Sequence[Benchmark] = field(default=())

    def __post_init__(self) -> None:
        if self.multiple != 4.0 and not self.multiple_reason:
            raise ValueError("Spec(multiple=...) needs multiple_reason: a tolerance is a bound, not a taste")
        if self.gradient_working_scale is not None and self.gradient_scale is None:
            raise ValueError("Spec(gradient_working_scale=...) is added to gradient_scale: state both")
        for name, reason in self.computed_by_torch.items():
            if not re.fullmatch(r"(result|gradient) [0-9]+", name):
                raise ValueError(f"Spec(computed_by_torch=...) names 'result 0' or 'gradient 1', not {name!r}")
            if not reason:
                raise ValueError(f"Spec(computed_by_torch=...) needs the reason for {name!r}")
        for stated, numbers in self._positions():
            for number in numbers:
                if not isinstance(number, int) or number < 0:
                    raise ValueError(f"Spec({stated}) names a result by its position, 0 for the first, not {number!r}")
        if self.rounding_error is not None and not self.rounded_once:
            raise ValueError("Spec(rounding_error=...) is a part of the claim rounded_once: state both")
        if self.gradient_rounding_error is not None and not self.gradients_rounded_once:
            raise ValueError(
                "Spec(gradient_rounding_error=...) is a part of the claim gradients_rounded_once: state both"
            )
        if not callable(self.calls):
            raise TypeError(f"Spec(calls=...) is {self.calls!r}; it must be a function of limits: lambda limits: ...")
        for name in ("smooth", "edges", "gpu_edges"):
            for number, call in enumerate(getattr(self, name)):
                require_call(f"entry {number} of Spec({name}=...)", call)
        for call in self.smooth:
            if not any(True for _ in call.cases()):
                raise ValueError("each call in Spec(smooth=...) needs a tensor argument")
        if isinstance(self.writes, str):
            raise ValueError(f"Spec(writes=...) is a sequence of names: ({self.writes!r},)")
        if self.writes and self.gradients is not None and self.gradients.arguments != ():
            raise ValueError("Spec(writes=...): an op that writes into an argument has no gradients")

    def require_parameters(self, parameters: Sequence[str]) -> None:
        """Raises ValueError if the spec names an argument that is not among ``parameters``, those of the reference."""
        for stated, name in self._named_arguments():
            if name not in parameters:
                raise ValueError(
                    f"Spec({stated}) names {name!r}, which is no parameter of the reference: {', '.join(parameters)}"
                )
        for number in self._computed("gradient"):
            if number >= len(parameters):
                raise ValueError(
                    f"Spec(computed_by_torch=...) names 'gradient {number}', but the reference has parameters "
                    f"0 to {len(parameters) - 1}: {', '.join(parameters)}"
                )

    def require_results(self, count: int) -> None:
        """Raises ValueError if the spec names a result that is not among ``count``, those of the reference."""
        several = f"{count} results, 0 to {count - 1}" if count > 1 else "one result, 0"
        for stated, numbers in self._positions():
            for number in numbers:
                if number >= count:
                    raise ValueError(f"Spec({stated}) names result {number}; the reference has {several}")

    @property
    def names_results(self) -> bool:
        """Whether it states something about a result by its position."""
        return any(tuple(numbers) for _, numbers in self._positions())

    def _positions(self) -> Iterator[tuple[str, Iterable[int]]]:
        """The positions of results in the spec, each after the field that has them."""
        yield "views=...", self.views
        if self.gradients is not None:
            yield "gradients=Gradients(results=...)", self.gradients.results or ()
        if not self.writes:  # arguments that were written into are numbered after the results
            yield "results=...", range(len(self.results))
            yield "computed_by_torch=...", self._computed("result")

    def _computed(self, what: str) -> list[int]:
        """The numbers of the results, or of the gradients, that torch computes."""
        named = (name.split() for name in self.computed_by_torch)
        return [int(number) for kind, number in named if kind == what]

    def _named_arguments(self) -> Iterator[tuple[str, str]]:
        """The names of arguments in the spec, each after the field that has it."""
        yield from (("writes=...", name) for name in self.writes)
        yield from (("views=...", name) for name in self.views.values())
        yield from (("ordered=...", name) for name in self.ordered)
        if self.gradients is not None:
            yield from (("gradients=Gradients(arguments=...)", name) for name in self.gradients.arguments or ())
