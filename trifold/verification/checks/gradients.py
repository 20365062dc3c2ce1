"""Gradients: against float64 autograd of the reference in every dtype and layout, and against finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from trifold.spec import Call, TensorCase
from trifold.verification.cell import Cell, CheckFailed, as_tuple
from trifold.verification.checks.differentiation import in_dtype, is_floating, tensor_positions
from trifold.verification.checks.values import with_working
from trifold.verification.tolerance import form_mismatch, mismatch, same_bits

# Gradients are compared at ordinary values. In the tails of a function, and at ±huge and nan, the reference is not
# exact itself (in 1 - y near y = 1, say), so they must only stay finite there.
_ORDINARY = ("exact", "normal", "zero", "tiny")


def gradients(cell: Cell) -> str | None:
    """Gradients of all arguments and of each alone, with upstream gradients of several layouts."""
    rejected = False

    def test(call: Call) -> None:
        nonlocal rejected
        if not all(not isinstance(a, TensorCase) or a.fill in _ORDINARY for a in call.args):
            _stay_finite(cell, call)
            return
        for subset in _subsets(tensor_positions(call)):
            rejected |= _compare(cell, call, subset)

    cell.for_each_call(test, examples=max(cell.search.examples // 2, 10))
    if not rejected:
        raise CheckFailed("no case has a gradient that zeros would not pass for; add samples with other values")
    return None


def _stay_finite(cell: Cell, call: Call) -> None:
    """No gradient overflows where that of the reference does not."""
    positions = tuple(tensor_positions(call))
    grads = _gradients(cell, call, positions, cell.implementation.function)
    native = _gradients(cell, call, positions, cell.reference)
    exact = _gradients(cell, call, positions, cell.reference, convert=Tensor.double)
    for position, grad, own, want in zip(positions, grads, native, exact, strict=True):
        if grad is None or own is None or want is None:
            continue
        wrong = ~grad.isfinite() & own.isfinite() & want.isfinite()
        if bool(wrong.any()):
            raise CheckFailed(
                f"gradient of argument {position}: {float(grad[wrong][0])!r} where the exact one is "
                f"{float(want[wrong][0])!r}",
                call,
            )


def _subsets(positions: list[int]) -> Iterable[tuple[int, ...]]:
    """All arguments together, and each alone."""
    yield tuple(positions)
    if len(positions) > 1:
        yield from ((position,) for position in positions)


def _compare(cell: Cell, call: Call, subset: tuple[int, ...]) -> bool:
    """Whether zeros would have been rejected; raises ``CheckFailed`` where a gradient is wrong."""
    results, grads = differentiate(cell, call, subset, cell.implementation.function)
    if len(subset) == len(tensor_positions(call)):
        plain = cell.invoke(call)
        if not all(same_bits(a, b) for a, b in zip(results, plain, strict=True)):
            raise CheckFailed("the result is another one when a gradient is asked for", call)
    native = _gradients(cell, call, subset, cell.reference)
    exact = _gradients(cell, call, subset, cell.reference, convert=Tensor.double)
    scale = gradient_scales(cell, call, subset)
    rejects_zeros = False
    for position, grad, own, want, size in zip(subset, grads, native, exact, scale, strict=True):
        if grad is None:
            raise CheckFailed(f"argument {position} requires a gradient and gets none", call)
        assert own is not None and want is not None
        form = form_mismatch(grad, own) if grad.layout == own.layout and _same_form_matters(grad, own) else None
        wrong = form or mismatch(grad, want, own, size, multiple=cell.spec.multiple)
        if wrong:
            asked = "" if len(subset) == len(tensor_positions(call)) else " (asked for alone)"
            raise CheckFailed(f"gradient of argument {position}{asked}: {wrong}", call)
        rejects_zeros |= mismatch(torch.zeros_like(grad), want, own, size, multiple=cell.spec.multiple) is not None
    return rejects_zeros


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
) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
    """Results and gradients; ``convert`` is applied to the arguments, it and ``upstream`` to the upstream gradients."""
    args, kwargs = call.arguments(cell.device)
    args = [convert(value) if is_floating(value) else value for value in args]
    inputs = [args[position].detach().requires_grad_() for position in subset]
    for position, value in zip(subset, inputs, strict=True):
        args[position] = value
    torch.manual_seed(call.seed)
    results = as_tuple(function(*args, **kwargs))
    # The upstream gradient is drawn in the op's dtype: the same numbers for the implementation and the reference.
    dtype = call.dtype
    outer = [upstream(convert(upstream_gradient(result, dtype, call.seed + k))) for k, result in enumerate(results)]
    before = [value.clone() for value in outer]
    grads = torch.autograd.grad(results, inputs, outer, allow_unused=True)
    if not all(same_bits(a, b) for a, b in zip(outer, before, strict=True)):
        raise CheckFailed("backward changes the upstream gradient", call)
    return results, grads


def upstream_gradient(result: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Normal numbers; one layout in three is an expanded scalar (as sum().backward() gives), one is transposed."""
    generator = torch.Generator().manual_seed(seed)
    shape = tuple(result.shape)
    if result.numel() % 3 == 1:
        return torch.randn((), generator=generator).to(dtype).to(result.device).expand(shape)
    if result.numel() % 3 == 2 and len(shape) > 1:
        return (
            torch.randn(shape[::-1], generator=generator).to(dtype).to(result.device).permute(*range(len(shape))[::-1])
        )
    return torch.randn(shape, generator=generator).to(dtype).to(result.device)


def gradient_scales(cell: Cell, call: Call, subset: tuple[int, ...]) -> tuple[Tensor | None, ...]:
    """The scale of each gradient: the spec's, or the reference's gradient on absolute values."""
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
            every = with_working(every, working, call.dtype)
        order = tensor_positions(call)
        return tuple(every[order.index(position)] for position in subset)
    return _gradients(cell, call, subset, cell.reference, convert=lambda x: x.double().abs(), upstream=torch.abs)


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


def _gradcheck(cell: Cell, dtype: torch.dtype, **tolerances: float) -> str | None:
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
    """Second derivatives are right, or asking for them is a clear error."""
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
    return f"second derivatives are refused: {'; '.join(sorted(refusals))}" if refusals else None
