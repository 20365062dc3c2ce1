"""Gradients: against float64 autograd of the reference in every dtype and layout, and against finite differences."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from trifold.spec import AliasCase, Call, TensorCase
from trifold.verification.cell import Cell, CheckFailed, as_tuple
from trifold.verification.checks.differentiation import in_dtype, is_floating, require_gradients, tensor_positions
from trifold.verification.checks.values import with_working
from trifold.verification.tolerance import form_mismatch, mismatch, same_bits

# Gradients are compared at ordinary values. In the tails of a function, and at ±huge and nan, the reference is not
# exact itself (in 1 - y near y = 1, say), so they must only stay finite there.
_ORDINARY = ("exact", "normal", "zero", "tiny")


# Above as many elements an upstream gradient with nan and inf takes too long to be worth it.
_SPECIAL_ELEMENTS = 1024


def gradients(cell: Cell) -> str | None:
    """Gradients of all arguments and of each selection of them, with upstream gradients of several layouts."""
    impostors = _Impostors()

    def test(call: Call) -> None:
        positions = tensor_positions(call)
        if not all(not isinstance(a, TensorCase) or a.fill in _ORDINARY for a in call.args):
            _compare_specials(cell, call, upstream_gradient)
            return
        right = _Right.of(cell, call)
        for subset in _subsets(positions):
            _compare(cell, call, subset, right, impostors)
        if sum(torch.Size(v.shape).numel() for v in call.args if isinstance(v, TensorCase)) <= _SPECIAL_ELEMENTS:
            _compare_specials(cell, call, special_upstream_gradient)

    cell.for_each_call(test, examples=max(cell.search.examples // 2, 10))
    for call in cell.swept_calls(below=_SWEPT_SIMULATED if cell.simulated else _SWEPT):
        cell.run_case(test, call)
    return impostors.require_rejected()


# Powers of two of elements: gradients of each selection of arguments take several calls.
_SWEPT = 17
_SWEPT_SIMULATED = 12


class _Impostors:
    """Wrong gradients that cost nothing to make: each must be rejected by some case."""

    def __init__(self) -> None:
        self.applied: set[str] = set()
        self.rejected: set[str] = set()

    def offer(self, name: str, impostor: Tensor, grad: Tensor, rejects: Callable[[Tensor], bool]) -> None:
        if name in self.rejected or impostor.shape != grad.shape or same_bits(impostor, grad):
            return
        self.applied.add(name)
        if rejects(impostor):
            self.rejected.add(name)

    def require_rejected(self) -> str:
        if "zeros" not in self.rejected:
            raise CheckFailed("no case has a gradient that zeros would not pass for; add samples with other values")
        passed = sorted(self.applied - self.rejected)
        if passed:
            raise CheckFailed(
                f"every case would accept {' and '.join(passed)} as a gradient; add samples that do not, or state a "
                "smaller scale"
            )
        return f"{len(self.rejected)} impostors are rejected"


Upstream = Callable[[Tensor, torch.dtype, int], Tensor]


def _compare_specials(cell: Cell, call: Call, outer: Upstream) -> None:
    """No finite number stands where the reference has none, in the op's dtype and in float64, and the reverse."""
    positions = tuple(tensor_positions(call))
    grads = differentiate(cell, call, positions, cell.implementation.function, outer=outer)[1]
    native = differentiate(cell, call, positions, cell.reference, outer=outer)[1]
    exact = differentiate(cell, call, positions, cell.reference, convert=Tensor.double, outer=outer)[1]
    for position, grad, own, want in zip(positions, grads, native, exact, strict=True):
        if grad is None or own is None or want is None:
            continue
        # Of a sum of infinities, another formula that is as right gives inf where one gives nan.
        largest = torch.finfo(grad.dtype).max * (1 - 8 * torch.finfo(grad.dtype).eps)
        wrong = ~grad.isfinite() & own.isfinite() & (want.abs() < largest)
        if not cell.spec.finite_gradients:
            wrong |= grad.isfinite() & ~own.isfinite() & ~want.isfinite()
        if bool(wrong.any()):
            got, right = float(grad[wrong][0]), float(want[wrong][0])
            free = "; where that is right, say so: Spec(finite_gradients=...)" if math.isfinite(got) else ""
            raise CheckFailed(f"gradient of argument {position}: {got!r} where the exact one is {right!r}{free}", call)


def _subsets(positions: list[int]) -> Iterator[tuple[int, ...]]:
    """All arguments together, then each other selection: those that are left out are frozen."""
    for count in range(len(positions), 0, -1):
        yield from itertools.combinations(positions, count)


@dataclass(frozen=True)
class _Right:
    """The reference's gradients, by the argument's position: which others are asked for does not change them.

    Attributes:
        native, exact: in the op's dtype, and in float64.
        scale: see :func:`gradient_scales`.
    """

    native: dict[int, Tensor | None]
    exact: dict[int, Tensor | None]
    scale: dict[int, Tensor | None]

    @classmethod
    def of(cls, cell: Cell, call: Call) -> _Right:
        every = tuple(tensor_positions(call))
        native = _gradients(cell, call, every, cell.reference)
        exact = _gradients(cell, call, every, cell.reference, convert=Tensor.double)
        scale = gradient_scales(cell, call, every)
        return cls(*(dict(zip(every, values, strict=True)) for values in (native, exact, scale)))


def _compare(cell: Cell, call: Call, subset: tuple[int, ...], right: _Right, impostors: _Impostors) -> None:
    """Raises ``CheckFailed`` where a gradient is wrong; shows the impostors to what accepts gradients."""
    results, grads = differentiate(cell, call, subset, cell.implementation.function)
    everything = len(subset) == len(tensor_positions(call))
    if everything:
        if cell.process.changed_since(results):
            raise CheckFailed("backward changes a result", call)
        plain = cell.invoke(call)
        if not all(same_bits(a, b) for a, b in zip(results, plain, strict=True)):
            raise CheckFailed("the result is another one when a gradient is asked for", call)
    for position, grad in zip(subset, grads, strict=True):
        own, want, size = right.native[position], right.exact[position], right.scale[position]
        if grad is None:
            raise CheckFailed(f"argument {position} requires a gradient and gets none", call)
        assert own is not None and want is not None
        form = form_mismatch(grad, own) if grad.layout == own.layout and _same_form_matters(grad, own) else None

        def rejects(other: Tensor, want: Tensor = want, own: Tensor = own, size: Tensor | None = size) -> bool:
            return mismatch(other, want, own, size, multiple=cell.spec.multiple) is not None

        wrong = form or mismatch(grad, want, own, size, multiple=cell.spec.multiple)
        if wrong:
            asked = "" if everything else f" (asked for {'alone' if len(subset) == 1 else f'with {subset}'})"
            raise CheckFailed(f"gradient of argument {position}{asked}: {wrong}", call)
        impostors.offer("zeros", torch.zeros_like(grad), grad, rejects)
        if grad.itemsize >= 4:
            impostors.offer("1.01 times the gradient", (grad.double() * 1.01).to(grad.dtype), grad, rejects)
        for other in grads:
            if other is not None and other is not grad:
                impostors.offer(f"another argument's gradient for that of {position}", other, grad, rejects)


def _same_form_matters(grad: Tensor, own: Tensor) -> bool:
    """Strides of a gradient are torch's business (it may hand on the upstream one); shape, dtype and device are not."""
    return (grad.shape, grad.dtype, grad.device) != (own.shape, own.dtype, own.device)


def _gradients(
    cell: Cell,
    call: Call,
    subset: tuple[int, ...],
    function: Callable[..., Any],
    convert: Callable[[Tensor], Tensor] = lambda x: x,
    upstream: Callable[[Tensor], Tensor] = lambda x: x,
) -> tuple[Tensor | None, ...]:
    return differentiate(cell, call, subset, function, convert, upstream)[1]


def differentiate(
    cell: Cell,
    call: Call,
    subset: tuple[int, ...],
    function: Callable[..., Any],
    convert: Callable[[Tensor], Tensor] = lambda x: x,
    upstream: Callable[[Tensor], Tensor] = lambda x: x,
    outer: Upstream | None = None,
) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
    """Results and gradients; ``convert`` is applied to the arguments, it and ``upstream`` to the upstream gradients.

    ``outer`` makes the upstream gradient of a result; default: :func:`upstream_gradient`.
    """
    args, kwargs = call.arguments(cell.device)
    args = [convert(value) if is_floating(value) else value for value in args]
    inputs = require_gradients(args, call, subset)
    torch.manual_seed(call.seed)
    results = as_tuple(function(*args, **kwargs))
    # The upstream gradient is drawn in the op's dtype: the same numbers for the implementation and the reference.
    dtype = call.dtype
    make = outer or upstream_gradient
    given = [upstream(convert(make(result, dtype, call.seed + k))) for k, result in enumerate(results)]
    before = [value.detach().clone() for value in (*given, *results, *inputs)]
    grads = torch.autograd.grad(results, inputs, given, allow_unused=True)
    names = [*["the upstream gradient"] * len(given), *["a result"] * len(results), *["an argument"] * len(inputs)]
    for name, value, copy in zip(names, (*given, *results, *inputs), before, strict=True):
        if not same_bits(value, copy):
            raise CheckFailed(f"backward changes {name}", call)
    return results, grads


def upstream_gradient(result: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Normal numbers; one layout in three has stride 0 in all dimensions (as sum().backward() gives) or in one of them,
    one is transposed."""
    generator = torch.Generator().manual_seed(seed)
    shape = tuple(result.shape)
    if result.numel() % 3 == 1:
        dim = sum(n // 3 for n in shape) % (len(shape) + 1)
        one = tuple(1 if d == dim else n for d, n in enumerate(shape)) if dim < len(shape) else ()
        return torch.randn(one, generator=generator).to(dtype).to(result.device).expand(shape)
    if result.numel() % 3 == 2 and len(shape) > 1:
        return (
            torch.randn(shape[::-1], generator=generator).to(dtype).to(result.device).permute(*range(len(shape))[::-1])
        )
    return torch.randn(shape, generator=generator).to(dtype).to(result.device)


def special_upstream_gradient(result: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Normal numbers, and in one place of eight 0, -0, inf, -inf or nan."""
    generator = torch.Generator().manual_seed(seed)
    shape = tuple(result.shape)
    normal = torch.randn(shape, generator=generator)
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])[torch.randint(5, shape, generator=generator)]
    chosen = torch.rand(shape, generator=generator) < 1 / 8
    return torch.where(chosen, special, normal).to(dtype).to(result.device)


def gradient_scales(
    cell: Cell, call: Call, subset: tuple[int, ...], dtype: torch.dtype | None = None
) -> tuple[Tensor | None, ...]:
    """The scale of each gradient, in round-offs of ``dtype`` (default: the call's): the spec's, or the reference's
    gradient on absolute values."""
    spec = cell.spec
    if spec.gradient_scale is not None:
        args, kwargs = call.arguments(cell.device)
        args = [value.double() if is_floating(value) else value for value in args]
        results = cell.refer(call, (args, kwargs))
        outer = [upstream_gradient(r, call.dtype, call.seed + k).double() for k, r in enumerate(results)]
        torch.manual_seed(call.seed)
        every = as_tuple(spec.gradient_scale(cell.reference, *outer, *args, **kwargs))
        if spec.gradient_working_scale is not None:
            torch.manual_seed(call.seed)
            working = as_tuple(spec.gradient_working_scale(cell.reference, *outer, *args, **kwargs))
            every = with_working(every, working, dtype or call.dtype)
        places = [p for p, value in enumerate(call.args) if isinstance(value, TensorCase | AliasCase)]
        return tuple(
            sum(
                (every[places.index(alias)] for alias in _very_tensors(call, position)),
                every[places.index(position)],
            )
            for position in subset
        )
    return _gradients(cell, call, subset, cell.reference, convert=lambda x: x.double().abs(), upstream=torch.abs)


def _very_tensors(call: Call, position: int) -> Iterator[int]:
    """The positions at which an argument stands again: autograd adds up the gradients of all."""
    for other, value in enumerate(call.args):
        if isinstance(value, AliasCase) and (value.of, value.shift) == (position, 0):
            yield other


def _differentiated(cell: Cell, call: Call, function: Callable[..., Any]) -> tuple[Callable[..., Any], list[Tensor]]:
    """``function`` as one of its tensor arguments alone, with the random state fixed; and those arguments."""
    args, kwargs = call.arguments(cell.device)
    positions = tensor_positions(call)
    inputs = [args[position].detach().requires_grad_() for position in positions]

    def closed(*tensors: Tensor) -> Any:
        full = list(args)
        for position, tensor in zip(positions, tensors, strict=True):
            full[position] = tensor
        torch.manual_seed(call.seed)
        return function(*full, **kwargs)

    return closed, inputs


def gradcheck_float64(cell: Cell) -> str | None:
    return _gradcheck(cell, torch.float64, eps=1e-6, atol=1e-5, rtol=1e-3)


def gradcheck_float32(cell: Cell) -> str | None:
    return _gradcheck(cell, torch.float32, eps=2.0**-8, atol=1e-3, rtol=1e-3)


_STEEP = 2e-3  # of a gradient: one that is off by 1% then fails with the tolerances of gradcheck


def _require_steep(cell: Cell) -> None:
    """For each argument some smooth call has a gradient that gradcheck can tell from another one."""
    largest: dict[int, float] = {}
    for call in cell.spec.smooth:
        positions = tuple(tensor_positions(call))
        for position, grad in zip(positions, _gradients(cell, call, positions, cell.reference), strict=True):
            size = 0.0 if grad is None or grad.numel() == 0 else float(grad.abs().nan_to_num(nan=0.0).max())
            largest[position] = max(largest.get(position, 0.0), size)
    flat = [position for position, size in largest.items() if size < _STEEP]
    if flat:
        raise CheckFailed(
            f"the gradient of argument {flat[0]} is 0, or almost, in each call of Spec(smooth=...): any other would "
            "pass gradcheck; add a call where it is not"
        )


def _gradcheck(cell: Cell, dtype: torch.dtype, **tolerances: float) -> str | None:
    _require_steep(cell)
    numerical_failed = False
    for call in (in_dtype(call, dtype) for call in cell.spec.smooth):
        cell.begin(call, "smooth")
        function, inputs = _differentiated(cell, call, cell.implementation.function)
        wrong = _numerical_gradcheck(function, inputs, tolerances)
        if cell.spec.surrogate:
            numerical_failed |= wrong is not None
            _compare_jacobians(cell, call, function, inputs)
        elif wrong:
            raise CheckFailed(wrong, call)
    if not cell.spec.surrogate:
        return None
    if not numerical_failed:
        raise CheckFailed(
            "the gradient is declared a surrogate, but a numerical gradcheck passes: it is the derivative after all; "
            "remove Spec(surrogate=...)"
        )
    return f"surrogate gradient, compared with the reference's rule; a numerical gradcheck fails: {cell.spec.surrogate}"


def _numerical_gradcheck(function: Callable[..., Any], inputs: list[Tensor], tolerances: dict[str, Any]) -> str | None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not a double precision.*")
        try:
            torch.autograd.gradcheck(function, inputs, fast_mode=False, **tolerances)
        except GradcheckError as error:
            return " ".join(str(error).split())[:600]
    return None


def _compare_jacobians(cell: Cell, call: Call, function: Callable[..., Any], inputs: list[Tensor]) -> None:
    rule, _ = _differentiated(cell, call, cell.reference)
    ours = torch.autograd.functional.jacobian(function, tuple(inputs))
    reference = torch.autograd.functional.jacobian(rule, tuple(inputs))
    for position, (got, want) in enumerate(zip(ours, reference, strict=True)):
        if not torch.allclose(got, want, rtol=1e-5, atol=0):
            raise CheckFailed(f"the Jacobian for argument {position} differs from the reference's own rule", call)


def gradgradcheck(cell: Cell) -> str | None:
    """Second derivatives are right in every dtype, or asking for them is a clear error."""
    refusals = set()
    for call in (in_dtype(call, torch.float64) for call in cell.spec.smooth[:3]):
        cell.begin(call, "smooth")
        function, inputs = _differentiated(cell, call, cell.implementation.function)
        try:
            torch.autograd.gradgradcheck(function, inputs, eps=1e-6, atol=1e-5, rtol=1e-3)
        except GradcheckError as error:
            raise CheckFailed(" ".join(str(error).split())[:600], call) from None
        except RuntimeError as error:
            if "has no gradient" not in str(error):
                raise CheckFailed(f"{type(error).__name__}: {error}", call) from error
            refusals.add(str(error))
    if refusals:
        return f"second derivatives are refused: {'; '.join(sorted(refusals))}"
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        call = in_dtype(cell.spec.smooth[-1], dtype)
        cell.begin(call, "smooth")
        _compare_second(cell, call)
    return None


# Of numbers of the size of 1, in round-offs: coarse, since nothing states how a second derivative is computed.
_SECOND_ROUND_OFFS = 64


def _compare_second(cell: Cell, call: Call) -> None:
    """Second derivatives in a narrower dtype against the reference's in float64."""
    got = _second(cell, call, cell.implementation.function)
    own = _second(cell, call, cell.reference)
    exact = _second(cell, call, cell.reference, convert=Tensor.double)
    unit = torch.finfo(call.dtype).eps / 2
    for number, (value, native, want) in enumerate(zip(got, own, exact, strict=True)):
        if value is None or native is None or want is None or want.numel() == 0:
            if (value is None) != (want is None) and bool((want if value is None else value).any()):  # type: ignore[union-attr]
                raise CheckFailed(f"second derivative {number} is missing, or one too many", call)
            continue
        size = 1 + float(want.abs().max())
        allowed = _SECOND_ROUND_OFFS * unit * size + 4 * float((native.double() - want).abs().max())
        off = float((value.double() - want).abs().max())
        if not off <= allowed:
            raise CheckFailed(
                f"second derivative {number} in {call.dtype} is off by {off:.3g}, where {allowed:.3g} is allowed", call
            )


def _second(
    cell: Cell, call: Call, function: Callable[..., Any], convert: Callable[[Tensor], Tensor] = lambda x: x
) -> tuple[Tensor | None, ...]:
    """Gradients, for arguments and upstream gradients, of the gradients' sum with fixed weights."""
    args, kwargs = call.arguments(cell.device)
    args = [convert(value) if is_floating(value) else value for value in args]
    inputs = require_gradients(args, call, tensor_positions(call))
    torch.manual_seed(call.seed)
    results = [result for result in as_tuple(function(*args, **kwargs)) if result.requires_grad]
    outer = [convert(upstream_gradient(result, call.dtype, 5 + k)).requires_grad_() for k, result in enumerate(results)]
    grads = torch.autograd.grad(results, inputs, outer, create_graph=True, allow_unused=True)
    pairs = [(g, convert(upstream_gradient(g, call.dtype, 9))) for g in grads if g is not None and g.requires_grad]
    if not pairs:
        return ()
    made, weights = zip(*pairs, strict=True)
    return torch.autograd.grad(made, [*inputs, *outer], weights, allow_unused=True)
