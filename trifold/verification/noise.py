"""How inexact the reference is in float64, where there is nothing more exact to compare it with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from trifold.isolation.device_memory import staged
from trifold.spec import Call, TensorCase
from trifold.spec.case import AnyCase
from trifold.verification.tolerance import allowed_error, mismatch

_NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}
_MOST_CALLS = 16
_MOST_ELEMENTS = 1 << 21  # in all calls together

# Of some calls: the exact result, the reference's own in the call's dtype, and the scale.
Evaluations = Iterable[tuple[Tensor | None, Tensor | None, Tensor | None]]


def mismatch_beyond_noise(
    got: Tensor,
    want: Tensor,
    own: Tensor,
    scale: Tensor | None,
    evaluations: Callable[[], Evaluations],
    multiple: float,
    upstream: float = 0.0,
) -> str | None:
    """:func:`~trifold.verification.tolerance.mismatch`. Of a result in float64, the reference may be as wrong as the
    implementation: a difference of two numbers, say, where the implementation has a quotient. If they differ, the bound
    is that of the same formula in float32, in round-offs, where float64 shows its error, and half as much for the
    reference's own error in float64: the bound in float32 is at least twice that.

    Args:
        got, want, own, scale, multiple, upstream: as of ``mismatch``.
        evaluations: the reference on :func:`similar_calls`.
    """
    got, want, own, *sizes = staged([got, want, own, *(() if scale is None else (scale,))])
    scale = sizes[0] if sizes else None
    wrong = mismatch(got, want, own, scale, multiple=multiple, upstream=upstream)
    if not wrong or got.dtype not in _NARROWER:
        return wrong
    bounds = []
    for exact, narrow, size in evaluations():
        if exact is not None and narrow is not None and narrow.dtype in _NARROWER.values():
            both = (_real(exact).double().cpu(), _real(narrow).double().cpu())
            bound = allowed_error(*both, _of_parts(size, narrow), torch.float32, multiple=multiple)
            bounds.append(bound.multiple)
    return mismatch(got, want, own, scale, multiple=1.5 * max(bounds)) if bounds else wrong


def similar_calls(call: Call) -> Iterator[Call]:
    """The call in float32 in place of float64, with other numbers of the same fills. Several even of a large call: of
    its elements, the one that loses most may be one of a kind, such as that of a row's class."""
    for step in range(min(max(_MOST_ELEMENTS // max(call.elements, 1), 1), _MOST_CALLS)):
        yield call.with_cases(functools.partial(_narrowed, step))


def _narrowed(step: int, case: AnyCase) -> AnyCase:
    if not isinstance(case, TensorCase) or not (case.dtype.is_floating_point or case.dtype.is_complex):
        return case
    return replace(case, dtype=_NARROWER.get(case.dtype, case.dtype), seed=case.seed + step)


def _of_parts(scale: Tensor | None, result: Tensor) -> Tensor | None:
    """The scale of each number of :func:`_real`: of a complex result, that of both parts."""
    if scale is None:
        return None
    return scale.detach().abs().unsqueeze(-1) if result.is_complex() else scale.detach()


def _real(value: Tensor) -> Tensor:
    return torch.view_as_real(value.detach().resolve_conj()) if value.is_complex() else value.detach()
