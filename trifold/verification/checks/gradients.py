"""Gradients against float64 autograd of the reference, in every dtype and layout."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from trifold.isolation.device_memory import staged
from trifold.spec import Call
from trifold.spec.call import Path
from trifold.verification.calls import FEW, FORMS, FORMS_LIMITS, FORMS_SALT, ORDINARY, is_ordinary
from trifold.verification.cell import Cell
from trifold.verification.checks.apart import gradients_apart
from trifold.verification.checks.differentiation import (
    Convert,
    RightGradients,
    Upstream,
    differentiate,
    plain_upstream_gradient,
    special_upstream_gradient,
    upstream_gradient,
)
from trifold.verification.checks.many_rows import with_many_rows
from trifold.verification.checks.native import as_native_code
from trifold.verification.checks.sensitivity import ZerosBySize
from trifold.verification.comparison import grown, same_values
from trifold.verification.outcomes import CheckFailed
from trifold.verification.tolerance import allowed_error, form_mismatch, same_bits

# Elements; for larger calls, the gradients of all arguments are computed together.
_FEW, _FEW_SIMULATED = 4096, 512
# Elements; with more, an upstream gradient with nan and inf takes too long.
_SPECIAL_ELEMENTS = 1024
_MOST_DRAWN = 160  # calls, to find one in which an argument has no elements


def gradients(cell: Cell) -> str | None:
    """Gradients of all arguments, and in each small call of some of them, each subset in turn; with upstream gradients
    of several layouts. A prototype in the simulator also runs on edges of more elements, as native code."""
    cell.require_differentiable()
    impostors = _Impostors()
    few = _FEW_SIMULATED if cell.simulated else _FEW
    turns = itertools.count()

    def test(call: Call) -> None:
        paths = cell.gradient_paths(call)
        if not paths:  # a call of integers, say
            return
        if not _is_exact(call):
            _compare_specials(cell, call, upstream_gradient)
            return
        right = RightGradients.of(cell, call, paths)
        _compare(cell, call, tuple(paths), right, impostors, None)
        turn = next(turns)
        for number, subset in enumerate(_of_some(paths, turn) if call.elements <= few else ()):
            turned = (call.seed + turn + number) % 2 == 1
            _compare(cell, call, subset, right, impostors, column_major if turned else None)
        if sum(math.prod(case.shape) for _, case in call.floating()) <= _SPECIAL_ELEMENTS:
            _compare_specials(cell, call, special_upstream_gradient)

    cell.for_each_call(
        test, examples=max(cell.search.examples // 2, 10), fixed=cell.fixed_calls_of_one_dtype(above=FEW)
    )
    for call in cell.swept_calls(below=_SWEPT_SIMULATED if cell.simulated else _SWEPT):
        cell.run_case(test, call)
    for call in (*cell.calls_of_length(), *cell.calls_of_numbers(in_half=False)):
        cell.run_case(functools.partial(require_right, cell), call)
    plainly = functools.partial(require_right, cell, outer=plain_upstream_gradient)
    for call in cell.plain_large_calls():
        cell.run_case(plainly, call)
    with_many_rows(cell, functools.partial(require_right, cell))
    for call in itertools.islice(_of_nothing(cell), 1):
        cell.run_case(test, call, "no element of one argument")
    gradients_apart(cell)
    large = [(functools.partial(require_right, cell), call) for call in cell.native_edges()]
    remarks = (
        impostors.require_rejected(),
        as_native_code(cell, [*large, *((plainly, call) for call in cell.native_calls())]),
    )
    return "; ".join(remark for remark in remarks if remark) or None


def _of_nothing(cell: Cell) -> Iterator[Call]:
    """Drawn calls of which one argument has elements and another has none: its gradient is 0."""
    apart = False
    for number in range(_MOST_DRAWN):
        if number == FORMS and not apart:
            return  # an op on tensors of one shape
        for call in cell.drawn_calls(FORMS_LIMITS, 1, salt=FORMS_SALT + number):
            paths = cell.gradient_paths(call)
            sizes = [math.prod(case.shape) for path, case in call.floating() if path in paths]
            apart |= len(set(sizes)) > 1
            if len(sizes) > 1 and min(sizes) == 0 < max(sizes):
                yield call


def require_right(cell: Cell, call: Call, outer: Upstream | None = None) -> tuple[Tensor | None, ...]:
    """The gradients of all arguments together, for the upstream gradients ``outer``; raises ``CheckFailed`` if one is
    wrong. They are not compared at numbers for which the reference need not be exact."""
    paths = tuple(cell.gradient_paths(call))
    if not paths:
        return ()
    grads = differentiate(cell, call, paths, cell.implementation.function, outer=outer).grads
    if is_ordinary(call):
        right = RightGradients.of(cell, call, paths, outer=outer)
        for path, grad in zip(paths, grads, strict=True):
            wrong = _missing(right, path) if grad is None else right.wrong(path, grad)
            if wrong:
                raise CheckFailed(f"gradient of {cell.name(path)}: {wrong}", call)
    return grads


def _missing(right: RightGradients, path: Path) -> str | None:
    return "there is none" if right.native[path] is not None and right.exact[path] is not None else None


def _is_exact(call: Call) -> bool:
    """Whether the reference's gradients are exact for the call's numbers: ordinary ones, and those of many sizes."""
    return all(case.fill in (*ORDINARY, "wide") for _, case in call.floating())


# Exponents of sizes that are swept, fewer than for values: the gradients of each subset of arguments take several
# calls.
_SWEPT = 17
_SWEPT_SIMULATED = 12


class _Impostors:
    """Trivially wrong gradients: each must be rejected by some case."""

    def __init__(self) -> None:
        self.applied: set[str] = set()
        self.rejected: set[str] = set()
        self.zeros = ZerosBySize()

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
        if accepted := self.zeros.accepted():
            raise CheckFailed(
                f"every case with a gradient of {accepted} would accept zeros: state a smaller scale for these sizes"
            )
        return f"{len(self.rejected)} impostors are rejected"


# For numbers at which the reference in the op's dtype is within 1/64, a gradient may be off by 1/8, or by so many times
# the error that is allowed for ordinary numbers.
_OWN_NEAR, _NEAR, _COARSE = 1 / 64, 1 / 8, 64
_PERTURBATIONS = 8


def _compare_specials(cell: Cell, call: Call, outer: Upstream) -> None:
    """A gradient is finite where the reference's is, in the op's dtype and in float64; where all are finite, it is near
    the exact one; where they are infinite, it has the same sign."""
    paths = cell.gradient_paths(call)
    grads = differentiate(cell, call, paths, cell.implementation.function, outer=outer).grads
    right = RightGradients.of(cell, call, paths, outer=outer)
    for path, made in zip(paths, grads, strict=True):
        native, exact = right.native[path], right.exact[path]
        if made is None or native is None or exact is None:
            continue
        grad, own, want = staged([made, native, exact])
        # For a sum of infinities, an equally right formula gives inf instead of nan.
        largest = torch.finfo(grad.dtype).max * (1 - 8 * torch.finfo(grad.dtype).eps)
        wrong = ~grad.isfinite() & own.isfinite() & (want.abs() < largest)
        if bool(wrong.any()):
            wrong &= _stays_finite(cell, call, path, exact, outer).to(wrong.device)
        if not cell.spec.finite_gradients:
            wrong |= grad.isfinite() & ~own.isfinite() & ~want.isfinite()
        if grad.is_floating_point() and grad.numel() > 0:
            same = own.isinf() & want.isinf() & (own.sign() == want.sign())
            opposite = same & grad.isinf() & (grad.sign() != want.sign())
            if bool(opposite.any()):
                opposite &= _stays_infinite(cell, call, path, exact, outer).to(wrong.device)
            wrong |= opposite
            far = _is_far(right, path, grad, own, want)
            if grad.dtype == torch.float64 and bool(far.any()):
                far &= _is_stable(cell, call, path, exact, outer).to(wrong.device)
            wrong |= far
        if bool(wrong.any()):
            got, expected = grad[wrong][0], want[wrong][0].item()
            free = "" if not got.isfinite() or math.isfinite(expected) else _FREE
            raise CheckFailed(
                f"gradient of {cell.name(path)}: {got.item()!r} where the exact one is {expected!r}{free}", call
            )


_FREE = "; where that is right, say so: Spec(finite_gradients=...)"


def _is_far(right: RightGradients, path: Path, grad: Tensor, own: Tensor, want: Tensor) -> Tensor:
    """Whether a finite gradient is further off than rounding can explain, while the reference's own is not."""
    got, native, exact = grad.double(), own.double(), want.double()
    finite = got.isfinite() & native.isfinite() & exact.isfinite()
    bound = allowed_error(exact.cpu(), native.cpu(), right.scale[path], grad.dtype, multiple=right.multiple)
    allowed = _NEAR * exact.abs() + _COARSE * bound.allowed.to(exact.device)
    near = (native - exact).abs() <= _OWN_NEAR * exact.abs()
    return finite & near & ((got - exact).abs() > allowed)


def _is_stable(cell: Cell, call: Call, path: Path, want: Tensor, outer: Upstream) -> Tensor:
    """Where the reference's gradient in float64 hardly changes with the arguments. Elsewhere, or if it is 0, it may be
    what is left of a difference of large numbers, and nothing more exact is there to compare with."""
    stable = want != 0
    for step in range(1, _PERTURBATIONS + 1):
        scaled = functools.partial(torch.mul, other=1 + step * 2.0**-20)
        (other,) = differentiate(cell, call, [path], cell.reference, convert=scaled, outer=outer).grads
        stable &= torch.zeros_like(stable) if other is None else (other - want).abs() <= _OWN_NEAR * want.abs()
    return stable


def _stays_finite(cell: Cell, call: Call, path: Path, want: Tensor, outer: Upstream) -> Tensor:
    """Where the reference's gradient in the op's dtype is finite for arguments that are a few round-offs larger, too.
    Elsewhere an intermediate result at the end of the range may overflow, or not, as it is rounded."""
    (other,) = differentiate(cell, call, [path], cell.reference, convert=grown, outer=outer).grads
    return torch.ones_like(want, dtype=torch.bool) if other is None else other.isfinite()


def _stays_infinite(cell: Cell, call: Call, path: Path, want: Tensor, outer: Upstream) -> Tensor:
    """Where the reference's gradient is infinite with the same sign if each element of the arguments changes by itself,
    up or down. Elsewhere the sign may be that of a rounding error: of what is left of x - mean in a row of one number,
    times infinity."""
    stays = want.isinf()
    generator = torch.Generator().manual_seed(call.seed)

    def changed(x: Tensor) -> Tensor:
        up = torch.randint(2, x.shape, generator=generator).to(x.device, torch.promote_types(x.dtype, torch.float32))
        return x * (1 + (2 * up - 1) * 2.0**-20)

    for _ in range(2 * _PERTURBATIONS):
        (other,) = differentiate(cell, call, [path], cell.reference, convert=changed, outer=outer).grads
        stays &= torch.zeros_like(stays) if other is None else other == want
    return stays


def _compare_alone(cell: Cell, call: Call, paths: Sequence[Path], results: Sequence[int]) -> None:
    """If only one result has an upstream gradient, the gradients are those through it."""
    for number in results:

        def of_one(result: Tensor, dtype: torch.dtype, seed: int, number: int = number) -> Tensor:
            drawn = upstream_gradient(result, dtype, seed)
            return drawn if seed == call.seed + number else torch.zeros_like(drawn)

        right = RightGradients.of(cell, call, paths, outer=of_one)
        grads = differentiate(cell, call, paths, cell.implementation.function, through=[number]).grads
        for path, grad in zip(paths, grads, strict=True):
            want = right.exact[path]
            if grad is None:
                wrong = "there is none" if want is not None and bool(want.any()) else None
            else:
                wrong = right.wrong(path, grad)
            if wrong:
                raise CheckFailed(f"gradient of {cell.name(path)} through result {number} alone: {wrong}", call)


# Arguments, at most, of which each subset is asked for.
_MOST_SUBSETS_OF = 4
_PER_CALL = 2  # subsets that one call is made for


def _of_some(paths: Sequence[Path], turn: int) -> Sequence[tuple[Path, ...]]:
    """Two of the subsets, or one or none if there are no more: those whose turn it is.

    The subsets are all but the whole; of many arguments, such as those of a list, all but one, and each alone.
    Arguments that are left out do not require a gradient.
    """
    every = len(paths)
    sizes = range(every - 1, 0, -1) if every <= _MOST_SUBSETS_OF else (every - 1, 1)
    subsets = [subset for size in sizes for subset in itertools.combinations(paths, size)]
    return [subsets[(_PER_CALL * turn + k) % len(subsets)] for k in range(min(_PER_CALL, len(subsets)))]


def _compare(
    cell: Cell,
    call: Call,
    subset: tuple[Path, ...],
    right: RightGradients,
    impostors: _Impostors,
    upstream: Convert | None,
) -> None:
    """Raises ``CheckFailed`` if a gradient is wrong; offers impostors to each comparison that accepts a gradient.

    Args:
        upstream: gives the same upstream gradients another layout.
    """
    everything = len(subset) == len(right.native)
    made = differentiate(cell, call, subset, cell.implementation.function, upstream=upstream)
    if everything:
        if cell.process.changed_since(made.results):
            raise CheckFailed("backward changes a result", call)
        if not same_values(cell, call, made.results, cell.invoke(call)):
            raise CheckFailed("the result differs when a gradient is requested", call)
        through = [number for number in cell.gradient_results(made.results) if made.results[number].requires_grad]
        if len(through) > 1 and call.elements <= _FEW:
            _compare_alone(cell, call, subset, through)
    copies = iter(staged([grad for grad in made.grads if grad is not None]))
    on_host = [None if grad is None else next(copies) for grad in made.grads]
    for path, made_grad, grad in zip(subset, made.grads, on_host, strict=True):
        name, own = cell.name(path), right.native[path]
        if own is None or right.exact[path] is None:
            if grad is not None and bool(grad.any()):
                raise CheckFailed(f"gradient of {name}: it is not 0, but no result depends on {name}", call)
            continue
        if made_grad is None or grad is None:
            raise CheckFailed(
                f"{name} requires a gradient and gets none; where it has none on purpose, say so: "
                "Spec(gradients=Gradients(arguments=...))",
                call,
            )
        same_layout = made_grad.layout == own.layout
        form = form_mismatch(made_grad, own) if same_layout and _same_form_matters(made_grad, own) else None

        def rejects(other: Tensor, path: Path = path) -> bool:
            return right.wrong(path, other) is not None

        wrong = form or right.wrong(path, grad)
        if wrong:
            others = ", ".join(cell.name(other) for other in subset if other != path)
            laid = ", from a column-major upstream gradient" if upstream else ""
            asked = "" if everything else f" (asked for {f'with {others}' if others else 'alone'}{laid})"
            raise CheckFailed(f"gradient of {name}{asked}: {wrong}", call)
        zeros = torch.zeros_like(grad)
        impostors.offer("zeros", zeros, grad, rejects)
        # For numbers of many sizes, the error that is allowed may exceed the gradient.
        (native,) = staged([own])
        if is_ordinary(call) and bool(native.isfinite().all()):
            impostors.zeros.offer(native, functools.partial(rejects, zeros))
        if grad.itemsize >= 4 and grad.is_floating_point():
            impostors.offer("1.01 times the gradient", (grad.double() * 1.01).to(grad.dtype), grad, rejects)
        for other in on_host:
            if other is not None and other is not grad and other.dtype == grad.dtype:
                impostors.offer(f"another argument's gradient for that of {name}", other, grad, rejects)


def column_major(upstream: Tensor) -> Tensor:
    """The same numbers with dimensions reversed in memory; an expanded tensor is returned unchanged."""
    if upstream.dim() < 2 or 0 in upstream.stride():
        return upstream
    order = tuple(reversed(range(upstream.dim())))
    return upstream.permute(order).contiguous().permute(order)


def _same_form_matters(grad: Tensor, own: Tensor) -> bool:
    """Compare shape, dtype and device. The strides of a gradient are up to torch, which may pass on the upstream
    one."""
    return (grad.shape, grad.dtype, grad.device) != (own.shape, own.dtype, own.device)
