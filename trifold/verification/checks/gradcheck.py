"""Gradients against finite differences: torch's gradcheck and gradgradcheck, second derivatives in each dtype, and
third ones."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from trifold.isolation.tensors import mapped
from trifold.spec import Call, Limits, TensorCase
from trifold.spec.call import Path, put_at, tensor_at
from trifold.spec.case import AnyCase
from trifold.verification.calls import FORMS, FORMS_LIMITS, FORMS_SALT
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import (
    Convert,
    differentiate,
    exactly,
    in_dtype,
    in_dtype_of_spec,
    require_gradients,
    upstream_gradient,
)
from trifold.verification.checks.dtypes import taken, takes
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.results import as_tuple
from trifold.verification.seeding import seed

_IN_FLOAT64: dict[str, Any] = {"eps": 1e-6, "atol": 1e-5, "rtol": 1e-3}


def _differentiated(cell: Cell, call: Call, function: Callable[..., Any]) -> tuple[Callable[..., Any], list[Tensor]]:
    """``function`` of only the tensors that have a gradient, with a fixed random state, returning only the results that
    have one; and these tensors."""
    paths = cell.gradient_paths(call)
    made = call.arguments(cell.device)
    inputs = [tensor_at(made, path).detach().requires_grad_() for path in paths]

    def closed(*tensors: Tensor) -> Any:
        # The lists are copies, the tensors are not: elements of the lists are replaced.
        arguments = tuple(mapped([*made], lambda tensor: tensor))
        for path, tensor in zip(paths, tensors, strict=True):
            put_at(arguments, path, tensor)
        seed(call.seed)
        results = as_tuple(function(*arguments[0], **arguments[1]))
        chosen = [results[number] for number in cell.gradient_results(results)]
        return chosen[0] if len(chosen) == 1 else tuple(chosen)

    return closed, inputs


def _smooth_calls(cell: Cell) -> list[Call]:
    """Raises ``CheckFailed`` where an op with a gradient has none, ``NotRun`` for one without gradient."""
    cell.require_differentiable()
    if not cell.spec.smooth:
        raise CheckFailed("the op has a gradient and the spec no smooth call: Spec(smooth=...), small ones in float64")
    return list(cell.spec.smooth)


def gradcheck_float64(cell: Cell) -> str | None:
    return _gradcheck(cell, torch.float64, **_IN_FLOAT64)


def gradcheck_float32(cell: Cell) -> str | None:
    return _gradcheck(cell, torch.float32, eps=2.0**-8, atol=1e-3, rtol=1e-3)


_STEEP = 2e-3  # of a gradient's scale: a gradient that is off by 1% then fails with the tolerances of gradcheck


def _require_steep(cell: Cell) -> None:
    """For each argument, some smooth call has a gradient that gradcheck can distinguish from a wrong one."""
    largest: dict[str, float] = {}
    for call in _smooth_calls(cell):
        paths = cell.gradient_paths(call)
        for path, grad in zip(paths, differentiate(cell, call, paths, cell.reference).grads, strict=True):
            size = 0.0 if grad is None or grad.numel() == 0 else float(grad.abs().nan_to_num(nan=0.0).max())
            largest[cell.name(path)] = max(largest.get(cell.name(path), 0.0), size)
    if not largest:
        raise CheckFailed("no call of Spec(smooth=...) has an argument with a gradient")
    flat = [name for name, size in largest.items() if size < _STEEP]
    if flat:
        raise CheckFailed(
            f"the gradient of {flat[0]} is 0, or almost, in each call of Spec(smooth=...): any other would "
            "pass gradcheck; add a call where it is not"
        )


def _gradcheck(cell: Cell, dtype: torch.dtype, **tolerances: float) -> str | None:
    _require_steep(cell)
    if not takes(cell, dtype):
        raise NotRun(Absence.OTHER_DTYPE, str(dtype).removeprefix("torch."))
    numerical_failed = False
    for call in (in_dtype(call, dtype) for call in cell.spec.smooth):
        cell.begin(call, "smooth")
        function, inputs = _differentiated(cell, call, cell.implementation.function)
        wrong = _numerical_gradcheck(function, inputs, tolerances)
        if cell.spec.surrogate:
            numerical_failed |= wrong is not None
            _compare_jacobians(cell, call, function, inputs)
        elif wrong:
            raise CheckFailed(f"{wrong}{_at_a_kink(cell, call, tolerances)}", call)
    if not cell.spec.surrogate:
        return None
    if not numerical_failed:
        raise CheckFailed(
            "the gradient is declared a surrogate, but a numerical gradcheck passes: it is the derivative after all; "
            "remove Spec(surrogate=...)"
        )
    return f"surrogate gradient, compared with the reference's rule; a numerical gradcheck fails: {cell.spec.surrogate}"


def _at_a_kink(cell: Cell, call: Call, tolerances: dict[str, Any]) -> str:
    """A remark, if the reference fails at the call too."""
    function, inputs = _differentiated(cell, call, cell.reference)
    if not _numerical_gradcheck(function, inputs, tolerances):
        return ""
    return (
        f"\nso does the reference: it has no derivative within {tolerances['eps']:.1g} of this call of "
        "Spec(smooth=...), or a steep one; give the call other numbers, such as those of another seed"
    )


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
    ours = as_tuple(torch.autograd.functional.jacobian(function, tuple(inputs)))
    reference = as_tuple(torch.autograd.functional.jacobian(rule, tuple(inputs)))
    names = [cell.name(path) for path in cell.gradient_paths(call)]
    for number, (got, want) in enumerate(zip(ours, reference, strict=True)):
        if not torch.allclose(got, want, rtol=1e-5, atol=0):
            name = names[number % len(names)]
            raise CheckFailed(f"the Jacobian for {name} differs from the reference's own rule", call)


def gradgradcheck(cell: Cell) -> str | None:
    """Second derivatives are right in every dtype, or computing them raises a clear error. In float64 they are also
    compared with finite differences."""
    refusals: set[str] = set()
    smooth, in_float64 = _smooth_calls(cell), takes(cell, torch.float64)
    narrow = [dtype for dtype in taken(cell) if dtype != torch.float64]
    for call in (in_dtype(call, torch.float64) for call in smooth[:3] if in_float64):
        cell.begin(call, "smooth")
        function, inputs = _differentiated(cell, call, cell.implementation.function)
        refusals |= _refusals(functools.partial(torch.autograd.gradgradcheck, function, inputs, **_IN_FLOAT64), call)
    for dtype in narrow if not refusals else ():
        call = in_dtype_of_spec(cell, smooth[-1], dtype)
        cell.begin(call, "smooth")
        refusals |= _refusals(functools.partial(_compare_second, cell, call), call)
    if refusals:
        return f"second derivatives are refused: {'; '.join(sorted(refusals))}"
    if narrow:
        _with_constants(cell, in_dtype_of_spec(cell, smooth[-1], narrow[0]))
    if not in_float64:
        return "float64 is refused: second derivatives are compared with the reference's, third ones are not"
    _of_drawn(cell)
    return _third(cell, in_dtype(smooth[-1], torch.float64))


def _third(cell: Cell, call: Call) -> str | None:
    """Third derivatives, in a random direction, against differences of second ones: torch's own of the reference may be
    wrong, as those of its layer_norm are (torch 2.13)."""
    cell.begin(call, "smooth")
    function, inputs = _differentiated(cell, call, cell.implementation.function)

    def derived(values: Sequence[Tensor], of: Sequence[Tensor], seed: int) -> list[Tensor]:
        given = [value for value in values if value.requires_grad]
        outer = [upstream_gradient(value, call.dtype, seed + k) for k, value in enumerate(given)]
        grads = torch.autograd.grad(given, of, outer, create_graph=True, allow_unused=True) if given else ()
        return [grad for grad in grads if grad is not None]

    def second(*tensors: Tensor) -> tuple[Tensor, ...]:
        first = derived(as_tuple(function(*tensors)), tensors, 5)
        return tuple(derived(first, tensors, 9)) or (torch.zeros((), dtype=call.dtype),)

    check = functools.partial(torch.autograd.gradcheck, second, inputs, fast_mode=True, **_IN_FLOAT64)
    refused = _refusals(check, call, "a third derivative: ")
    return f"third derivatives are refused: {refused.pop()}" if refused else None


def _refusals(check: Callable[[], object], call: Call, what: str = "") -> set[str]:
    """The op's own error for a derivative that it does not have; empty if ``check`` passes.

    Raises:
        CheckFailed: it fails otherwise. The message begins with ``what``.
    """
    try:
        check()
    except GradcheckError as error:
        raise CheckFailed(f"{what}{' '.join(str(error).split())[:600]}", call) from None
    except RuntimeError as error:
        if "has no gradient" not in str(error):
            raise CheckFailed(f"{what}{type(error).__name__}: {error}", call) from error
        return {str(error)}
    return set()


def _with_constants(cell: Cell, call: Call) -> None:
    """Second derivatives where the upstream gradient is constant, as in a gradient penalty, or where only one argument
    is not."""
    cell.begin(call, "smooth")
    _compare_second(cell, call, upstream=False)
    paths = cell.gradient_paths(call)
    for path in paths if len(paths) > 1 else ():
        _compare_second(cell, call, [path])


_DRAWN = 6  # calls
_MANY = 8192  # elements, at least, of a further call: more than one block has
_OFF = 1e-6  # of the largest number, in float64: more than rounding explains in small calls of ordinary numbers


def _of_drawn(cell: Cell) -> None:
    """Second derivatives of a few drawn calls, in float64: smooth calls are few, contiguous, and have few values of the
    arguments that are not differentiated. Not of complex numbers, which an op may take in complex64 alone."""
    drawn = cell.drawn_calls(FORMS_LIMITS, FORMS, salt=FORMS_SALT)
    many = () if cell.simulated else cell.drawn_calls(Limits(elements=2 * _MANY, fewest=_MANY), FORMS, salt=FORMS_SALT)
    fit, larger = (
        [call for call in calls if call.elements > 0 and cell.gradient_paths(call) and not _is_complex(call)]
        for calls in (drawn, many)
    )
    for call in (*fit[:_DRAWN], *larger[:1]):
        cell.run_case(functools.partial(_compare_drawn, cell), in_dtype(call.with_cases(_of_normal), torch.float64))


def _is_complex(call: Call) -> bool:
    return any(isinstance(case, TensorCase) and case.dtype.is_complex for _, case in call.cases())


def _of_normal(case: AnyCase) -> AnyCase:
    return case.in_normal_numbers() if isinstance(case, TensorCase) and case.dtype.is_floating_point else case


def _compare_drawn(cell: Cell, call: Call) -> None:
    paths = cell.gradient_paths(call)
    try:
        exact, numbers = _second(cell, call, cell.reference, paths)
    except RuntimeError:  # torch has no second derivative of the reference
        return
    got, _ = _second(cell, call, cell.implementation.function, paths, numbers)
    for name, value, want in itertools.zip_longest(_names(cell, paths, numbers, exact), got, exact):
        if wrong := _mismatch_in_float64(value, want):
            raise CheckFailed(f"the second derivative for {name} is {wrong}", call)


def _mismatch_in_float64(value: Tensor | None, want: Tensor | None) -> str:
    """What is wrong with a second derivative; empty if nothing is where the reference's is finite."""
    if value is None or want is None:
        only = want if value is None else value
        one = only is not None and bool(only.isfinite().all() and only.any())
        return "missing, or one too many" if one else ""
    if value.shape != want.shape:
        return f"of shape {tuple(value.shape)}, not {tuple(want.shape)}"
    known = want.isfinite()
    if not known.any():
        return ""
    off = float((value - want)[known].abs().max())
    return "" if off <= _OFF * (1 + float(want[known].abs().max())) else f"off by {off:.3g}"


def _names(
    cell: Cell, paths: Sequence[Path], numbers: Sequence[int], derivatives: Sequence[Tensor | None]
) -> list[str]:
    """What each of the derivatives by :func:`_second` is for."""
    return [*map(cell.name, paths), *(f"upstream gradient {number}" for number in numbers)][: len(derivatives)]


# Round-offs, for numbers of size 1. It is coarse, since a spec does not state how a second derivative is computed.
_SECOND_ROUND_OFFS = 64


def _compare_second(cell: Cell, call: Call, paths: Sequence[Path] = (), *, upstream: bool = True) -> None:
    """Second derivatives in a narrower dtype against the reference's in float64.

    Args:
        paths: the arguments that are not constants; default: all with a gradient.
        upstream: the upstream gradient is not a constant.
    """
    every = cell.gradient_paths(call)
    paths = paths or every
    constants = [cell.name(path) for path in every if path not in paths]
    constants += [] if upstream else ["the upstream gradient"]
    exact, numbers = _second(cell, call, cell.reference, paths, upstream=upstream, convert=exactly(cell))
    own, _ = _second(cell, call, cell.reference, paths, numbers, upstream=upstream)
    got, _ = _second(cell, call, cell.implementation.function, paths, numbers, upstream=upstream)
    unit = torch.finfo(call.dtype).eps / 2
    of = f" where {' and '.join(constants)} is a constant" if constants else ""
    for name, value, native, want in itertools.zip_longest(_names(cell, paths, numbers, exact), got, own, exact):
        if value is None or native is None or want is None or want.numel() == 0:
            if (value is None) != (want is None) and bool((want if value is None else value).any()):  # type: ignore[union-attr]
                raise CheckFailed(f"the second derivative for {name}{of} is missing, or one too many", call)
            continue
        size = 1 + float(want.abs().max())
        allowed = _SECOND_ROUND_OFFS * unit * size + 4 * float((native.double() - want).abs().max())
        off = float((value.double() - want).abs().max())
        if not off <= allowed:
            raise CheckFailed(
                f"the second derivative for {name} in {call.dtype}{of} is off by {off:.3g}, where {allowed:.3g} is "
                "allowed",
                call,
            )


def _second(
    cell: Cell,
    call: Call,
    function: Callable[..., Any],
    paths: Sequence[Path],
    numbers: Sequence[int] | None = None,
    *,
    upstream: bool = True,
    convert: Convert = lambda x: x,
) -> tuple[tuple[Tensor | None, ...], list[int]]:
    """Gradients of the weighted sum of the gradients: for the arguments at ``paths`` and, unless they are constants,
    for the upstream gradients. None where the sum does not depend on one.

    Args:
        numbers: the results that get an upstream gradient; default: those that require one, which are also returned. An
            operator's results all require one if any of its arguments does.
    """

    def change(value: Tensor) -> Tensor:
        return convert(value) if value.is_floating_point() or value.is_complex() else value

    arguments = tuple(mapped([*call.arguments(cell.device)], change))
    inputs = require_gradients(arguments, call, paths)
    seed(call.seed)
    every = as_tuple(function(*arguments[0], **arguments[1]))
    if numbers is None:
        numbers = [number for number in cell.gradient_results(every) if every[number].requires_grad]
    results, numbers = [every[number] for number in numbers], list(numbers)
    if not results:
        return (), numbers
    outer = [convert(upstream_gradient(result, call.dtype, 5 + k)) for k, result in enumerate(results)]
    outer = [given.requires_grad_(upstream) for given in outer]
    grads = torch.autograd.grad(results, inputs, outer, create_graph=True, allow_unused=True)
    pairs = [(g, convert(upstream_gradient(g, call.dtype, 9))) for g in grads if g is not None and g.requires_grad]
    if not pairs:
        return (), numbers
    made, weights = zip(*pairs, strict=True)
    return torch.autograd.grad(made, [*inputs, *(outer if upstream else ())], weights, allow_unused=True), numbers
