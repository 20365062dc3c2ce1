"""Compares a result with the reference's, as the spec says: within a bound, equal, equal up to ties, or in any
order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trifold.isolation.device_memory import staged
from trifold.isolation.tensors import mapped
from trifold.spec import Call, Result
from trifold.verification.cell import Cell
from trifold.verification.noise import Evaluations, mismatch_beyond_noise, similar_calls
from trifold.verification.outcomes import CheckFailed
from trifold.verification.results import as_tuple
from trifold.verification.seeding import seed
from trifold.verification.tolerance import (
    computable,
    exact_mismatch,
    form_mismatch,
    is_approximate,
    same_numbers,
    zero_sign_mismatch,
)

_KEPT_ELEMENTS = 4096  # of a call, at most


@dataclass(frozen=True)
class Expected:
    """The results that a call should have.

    Attributes:
        whole: the reference's results in the op's dtype, as it returned them.
        native, exact: the reference's results, in the op's dtype and in float64.
        scale: of each result's error, see :func:`scales`.
    """

    cell: Cell
    call: Call
    whole: Any
    native: tuple[Tensor, ...]
    exact: tuple[Tensor, ...]
    scale: tuple[Tensor | None, ...]

    @classmethod
    def of(cls, cell: Cell, call: Call) -> Expected:
        """Those of a small call are kept with the cell: several checks make the same calls."""
        key = repr(call)
        if key in cell.known:
            known: Expected = cell.known[key]
            return known
        whole = cell.refer_whole(call)
        made = cls(cell, call, whole, as_tuple(whole), cell.refer(call, exact=True), scales(cell, call))
        _require_scales(made)
        if call.elements <= _KEPT_ELEMENTS:
            cell.known[key] = made
        return made

    def finite(self, number: int) -> Tensor:
        """Where the exact result and the reference's own are finite."""
        return torch.isfinite(computable(self.exact[number])) & torch.isfinite(computable(self.native[number]))

    def where_finite(self, number: int, other: Tensor) -> Tensor:
        """The reference's result with the numbers of ``other`` at its finite elements."""
        native = self.native[number]
        return torch.where(self.finite(number), computable(other), computable(native)).to(native.dtype)

    def wrong(self, number: int, result: Tensor, *, signs: bool = False) -> str | None:
        """What is wrong with the values of a result; None if they are right.

        Args:
            number: of the result.
            result: same shape and dtype as the reference's.
            signs: whether signs of zeros count.
        """
        native, exact, scale = self.native[number], self.exact[number], self.scale[number]
        how, spec = self.cell.how_compared(number), self.cell.spec
        if how.order != "given":
            return _wrong_set(result, native, how)
        if not is_approximate(native):
            return exact_mismatch(result, native, self._ties(how, result, native))
        noise = functools.partial(self._evaluations, number)
        wrong = mismatch_beyond_noise(result, exact, native, scale, noise, spec.multiple)
        if wrong and bool((overflowed := self._overflowed(number, result)).any()):
            result = torch.where(overflowed, native.detach().cpu(), result.detach().cpu())
            wrong = mismatch_beyond_noise(result, exact, native, scale, noise, spec.multiple)
        if wrong and how.tie is not None:
            ties = self._ties(how, result, native)
            same = torch.where(ties, native.detach().cpu(), result.detach().cpu())
            wrong = mismatch_beyond_noise(same, exact, native, scale, noise, spec.multiple)
        if not wrong and signs and not spec.zero_signs:
            wrong = zero_sign_mismatch(result, exact, native)
        return wrong

    def _evaluations(self, number: int) -> Evaluations:
        for call in similar_calls(self.call):
            exact, own = (self.cell.refer(call, exact=wide)[number] for wide in (True, False))
            yield exact, own, scales(self.cell, call)[number]

    def _overflowed(self, number: int, result: Tensor) -> Tensor:
        """The elements that are inf or nan, where the reference's are finite, and become the same if the arguments grow
        by a few round-offs: an intermediate result at the end of the range may overflow, or not, as it is rounded."""
        native = self.native[number].detach().cpu()
        got = result.detach().cpu()
        near = native.isfinite() & ~got.isfinite()
        if not native.is_floating_point() or not bool(near.any()):
            return torch.zeros((), dtype=torch.bool)
        arguments = mapped(self.call.arguments(self.cell.device), only_floating(grown))
        other = self.cell.refer(self.call, arguments)[number].detach().cpu()
        return near & ((other == got) | (other.isnan() & got.isnan()))

    def _ties(self, how: Result, result: Tensor, native: Tensor) -> Tensor:
        """The elements at which the result differs from the reference's and is as right, by the spec's ties."""
        if how.tie is None or torch.equal(result, native):
            return torch.zeros((), dtype=torch.bool)
        args, kwargs = self.call.arguments(self.cell.device)
        try:
            right = how.tie(result, native, *args, **kwargs)
        except (RuntimeError, IndexError):  # an index out of range, for which the spec's function of ties fails
            return torch.zeros((), dtype=torch.bool)
        try:
            return right.detach().cpu().expand(native.shape)
        except RuntimeError:
            raise CheckFailed(
                f"Result(tie=...) returns shape {tuple(right.shape)}, which does not broadcast to that of the result, "
                f"{tuple(native.shape)}",
                self.call,
            ) from None


def _require_scales(expected: Expected) -> None:
    """Raises ``CheckFailed`` if the spec's function returns no scale for a result, or one of another shape."""
    call, native, scales = expected.call, expected.native, expected.scale
    if len(scales) != len(native):
        raise CheckFailed(
            f"Spec(scale=...) returns {_several(len(scales), 'scale')}, the reference "
            f"{_several(len(native), 'result')}: return one for each, in a tuple",
            call,
        )
    for number, (scale, result) in enumerate(zip(scales, native, strict=True)):
        if scale is None or not is_approximate(result):  # of what is exact, a scale may be anything
            continue
        try:
            fits = torch.broadcast_shapes(scale.shape, result.shape) == result.shape
        except RuntimeError:
            fits = False
        if not fits:
            raise CheckFailed(
                f"Spec(scale=...) returns shape {tuple(scale.shape)} for result {number}, which does not broadcast to "
                f"that of the result, {tuple(result.shape)}",
                call,
            )


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def same_values(cell: Cell, call: Call, first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    """Whether two runs of one call agree: the same bits, except that any nan equals any other; or, where the spec says
    that a sum has no order, both within the bound."""
    if all(same_numbers(a, b) for a, b in zip(staged(first), staged(second), strict=True)):
        return True
    if not cell.is_unordered(call):
        return False
    expected = Expected.of(cell, call)
    return all(
        form_mismatch(result, expected.native[number]) is None and expected.wrong(number, result) is None
        for results in (first, second)
        for number, result in enumerate(results)
    )


def _wrong_set(result: Tensor, native: Tensor, how: Result) -> str | None:
    """The rows along a dimension as sets or multisets."""
    if native.dim() == 0:
        return exact_mismatch(result, native)
    got, want = (t.detach().cpu().movedim(how.dim, -1).reshape(-1, t.shape[how.dim]) for t in (result, native))
    for row, (a, b) in enumerate(zip(got, want, strict=True)):
        if how.order == "set":
            a, b = a.unique(), b.unique()
        else:
            a, b = a.sort().values, b.sort().values
        if not torch.equal(a, b):
            return f"row {row} has the {how.order} {a.tolist()[:8]}, expected {b.tolist()[:8]} (in any order)"
    return None


def scales(cell: Cell, call: Call, dtype: torch.dtype | None = None) -> tuple[Tensor | None, ...]:
    """The scale of each result, in round-offs of ``dtype`` (default: the call's): the spec's, or the reference on
    absolute values; None where a result has none."""
    args, kwargs = cell.converted(*call.arguments(cell.device))
    spec = cell.spec
    if spec.scale is None:
        sizes = _of_numbers(cell.refer(call, mapped((args, kwargs), only_floating(torch.abs))))
    else:
        seed(call.seed)
        sizes = _padded(cell, call, as_tuple(spec.scale(cell.reference, *args, **kwargs)))
    sizes = within_range(sizes, dtype or call.dtype)
    if spec.working_scale is None:
        return sizes
    seed(call.seed)
    working = _padded(cell, call, as_tuple(spec.working_scale(cell.reference, *args, **kwargs)))
    return with_working(sizes, working, dtype or call.dtype)


def within_range(sizes: Sequence[Tensor | None], dtype: torch.dtype) -> tuple[Tensor | None, ...]:
    """``sizes``, in round-offs of ``dtype``, of which what is beyond its range is in round-offs of the type that an op
    of that dtype computes in: numbers of that size are not rounded to ``dtype``."""
    if not dtype.is_floating_point:
        return tuple(sizes)
    largest = torch.finfo(dtype).max
    inside = [None if size is None else size.clamp(max=largest) for size in sizes]
    beyond = [None if size is None else (size - largest).clamp(min=0) for size in sizes]
    return with_working(inside, beyond, dtype) if dtype.itemsize == 2 else tuple(inside)


def with_working(
    sizes: Sequence[Tensor | None], working: Sequence[Tensor | None], dtype: torch.dtype
) -> tuple[Tensor | None, ...]:
    """``sizes``, in round-offs of ``dtype``, plus ``working``, in round-offs of the type that an op of that dtype
    computes in."""
    if not dtype.is_floating_point:  # integers have no rounding
        return tuple(sizes)
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    share = torch.finfo(computed).eps / torch.finfo(dtype).eps
    pairs = zip(sizes, working, strict=True)
    return tuple(size if size is None or more is None else size + share * more for size, more in pairs)


def only_floating(convert: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``convert`` of floating and complex tensors; others stay as they are."""
    return lambda value: convert(value) if value.is_floating_point() or value.is_complex() else value


def grown(x: Tensor) -> Tensor:
    """Finite numbers, larger by eight round-offs, as far as the range goes."""
    if x.is_complex():
        return x
    info = torch.finfo(x.dtype)
    return torch.where(x.isfinite(), (x * (1 + 8 * info.eps)).clamp(info.min, info.max), x)


def _of_numbers(results: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    return tuple(r.abs() if is_approximate(r) else None for r in results)


def _padded(cell: Cell, call: Call, sizes: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """Pads with None: a spec states scales of the results, not of arguments that the op writes into."""
    return (*sizes, *(None for _ in cell.written_paths(call)))
