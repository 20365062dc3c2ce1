"""When a result counts as equal to the exact one.

The error of an element is taken against the reference in float64. It passes within

    max(multiple · u · scale + n · q,  2 · the error of PyTorch's own result in that dtype)

where u is the dtype's unit round-off (2⁻²⁴ for float32), scale is the size of the numbers that the op rounds (its
condition: the reference on absolute values, or what the spec says), and q is the dtype's smallest subnormal number. n
is 1 for half types, whose intermediate results do not underflow in float32; elsewhere each of them that does is rounded
to a multiple of q, which later factors enlarge: n is 4 · multiple, and 4096 · multiple in float64, where the exact
result is off by as much and nothing says by how much. PyTorch's error is the largest on the same input, in units of
u · scale; where these are smaller than q, in units of q, and n is at least twice that. A result that is kept for
backward may be subnormal, off by q / 2, which the upstream gradient g multiplies: of gradients in half types, n is at
least 1 + |g| / 2. NaN and inf must stand in the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trifold.isolation.device_memory import staged

_REFERENCE = "the reference"


def is_approximate(x: Tensor) -> bool:
    """Whether numbers of this dtype are compared within a bound. Those of float8 must be equal, as integers: four of
    its round-offs are a quarter of a number."""
    return x.is_complex() or (x.is_floating_point() and x.itemsize > 1)


def computable(x: Tensor) -> Tensor:
    """float8 as float32, since torch computes little in float8; others as they are."""
    return x.float() if x.is_floating_point() and not is_approximate(x) else x


def mismatch(
    actual: Tensor,
    exact: Tensor,
    native: Tensor,
    scale: Tensor | None,
    *,
    multiple: float = 4.0,
    upstream: float = 0.0,
) -> str | None:
    """What is wrong with the values of ``actual``; None if nothing is.

    Args:
        actual: the implementation's result, of a floating dtype.
        exact: the reference on float64 arguments, same shape.
        native: the reference in the op's dtype.
        scale: float64, broadcastable to the result; where it is smaller than ``|exact|`` (or None), ``|exact|`` is
            used.
        multiple: how many u · scale are accepted.
        upstream: of a gradient, the largest absolute value of the upstream gradients.
    """
    if actual.numel() == 0:
        return None
    if actual.is_complex():
        parts = None if scale is None else scale.detach().abs().unsqueeze(-1)
        got, want, own = (torch.view_as_real(t.detach().resolve_conj()) for t in (actual, exact, native))
        return mismatch(got, want, own, parts, multiple=multiple, upstream=upstream)
    info = torch.finfo(actual.dtype)
    got, want, own = (t.detach().double().cpu() for t in (actual, exact, native))
    rounded = exact.detach().cpu().to(actual.dtype).double()
    special = _special_mismatch(got, want, rounded, own, info, multiple)
    if special is not None:
        return special

    bound = allowed_error(want, own, scale, actual.dtype, multiple=multiple, upstream=upstream)
    error = torch.where(torch.isfinite(want) & torch.isfinite(got), (got - want).abs(), 0.0)
    excess = error - bound.allowed
    if bool((excess <= 0).all()):
        return None
    index = int(excess.flatten().argmax())
    units = float(error.flatten()[index] / bound.unit.flatten()[index])
    return (
        f"{int((excess > 0).sum())} of {got.numel()} elements differ; at {_index(index, want)} the result is "
        f"{float(got.flatten()[index])!r}, exact is {float(want.flatten()[index])!r}: {units:.3g} unit round-offs of "
        f"{str(actual.dtype).removeprefix('torch.')}, {bound.multiple:.3g} are allowed"
    )


def exact_mismatch(actual: Tensor, expected: Tensor, ties: Tensor | None = None) -> str | None:
    """Where integers, bools or float8 differ; None if they are equal. Any nan equals any other.

    Args:
        actual, expected: of one shape and dtype.
        ties: finds elements that are as right as the expected ones, see :class:`trifold.spec.Result`.
    """
    got, want = (computable(x.detach().cpu()) for x in (actual, expected))
    wrong = (got != want) & ~((got != got) & (want != want))
    if ties is not None:
        wrong = wrong & ~ties
    if not bool(wrong.any()):
        return None
    index = int(wrong.flatten().int().argmax())
    return (
        f"{int(wrong.sum())} of {got.numel()} elements differ; at {_index(index, want)} the result is "
        f"{got.flatten()[index].item()!r}, expected is {want.flatten()[index].item()!r}"
    )


@dataclass(frozen=True)
class Bound:
    """The error that each element may have.

    Attributes:
        allowed: in float64, of the result's shape.
        unit: the size of one round-off there.
        multiple: how many of them are allowed.
    """

    allowed: Tensor
    unit: Tensor
    multiple: float


def allowed_error(
    want: Tensor, own: Tensor, scale: Tensor | None, dtype: torch.dtype, *, multiple: float, upstream: float = 0.0
) -> Bound:
    """The bound of the module's docstring, for results in ``dtype``.

    Args:
        want, own: the exact result and PyTorch's own, both as float64 on the CPU.
        scale, multiple, upstream: see :func:`mismatch`.
    """
    info = torch.finfo(dtype)
    finite = torch.isfinite(want)
    size = torch.where(finite, want.abs(), 0.0).clamp(max=info.max)
    if scale is not None:
        known = torch.nan_to_num(scale.detach().double().cpu().abs().expand_as(want), nan=0.0, posinf=info.max)
        size = torch.maximum(size, known)
    size = size.clamp(max=_largest_size(dtype))
    unit = size * (info.eps / 2)
    quantum = info.smallest_normal * info.eps
    own_error = torch.where(finite & torch.isfinite(own), (own - want).abs(), 0.0)
    own_quanta = float(torch.where(unit < quantum, own_error, 0.0).max()) / quantum
    enlarged = {2: 1.0 + upstream / 2, 8: 4096 * multiple}.get(dtype.itemsize, 4 * multiple)
    underflow = quantum * max(enlarged, 2 * own_quanta)
    own_multiple = float(((own_error - quantum).clamp(min=0) / unit.clamp(min=quantum)).max())
    multiple = max(multiple, 2 * own_multiple)
    # Not multiplied by `unit`, which is no number where float64's own results are subnormal.
    allowed = torch.maximum(size * (multiple * info.eps / 2) + underflow, 2 * own_error)
    return Bound(allowed, unit.clamp(min=quantum), multiple)


def _largest_size(dtype: torch.dtype) -> float:
    """The dtype's largest number; of half types more, since a sum, which is computed in float32, may have terms beyond
    the range of its result: float32's largest number, in round-offs of the half type, is added."""
    info, computed = torch.finfo(dtype), torch.finfo(torch.float32)
    return info.max + (computed.max * (computed.eps / info.eps) if dtype.itemsize == 2 else 0.0)


def _special_mismatch(
    got: Tensor, want: Tensor, rounded: Tensor, own: Tensor, info: torch.finfo, multiple: float
) -> str | None:
    """NaN must be where the exact result, or its overflow in PyTorch, is NaN; likewise inf, with its sign."""
    nan_expected = torch.isnan(want)
    # A finite exact result may become inf if its rounding overflows; within the tolerance of overflow, both are
    # accepted.
    margin = info.max * (1 - multiple * info.eps)
    near_overflow = (want.abs() >= margin) & torch.isfinite(want)
    same_inf = torch.where(torch.isinf(rounded), got == rounded, ~torch.isinf(got))
    inf_allowed = near_overflow & (got.sign() == want.sign()) & ~torch.isnan(got)
    wrong = (torch.isnan(got) != nan_expected) | ~(same_inf | inf_allowed | nan_expected)
    # Where PyTorch overflows in the dtype's own arithmetic, the same value is accepted.
    same_as_own = (got == own) | (torch.isnan(got) & torch.isnan(own))
    wrong &= ~(same_as_own & ~torch.isfinite(own) & ~torch.isnan(want))
    if not bool(wrong.any()):
        return None
    index = int(wrong.flatten().int().argmax())
    return (
        f"{int(wrong.sum())} of {got.numel()} elements differ; at {_index(index, want)} the result is "
        f"{float(got.flatten()[index])!r}, exact is {float(want.flatten()[index])!r}"
    )


def zero_sign_mismatch(actual: Tensor, exact: Tensor, native: Tensor) -> str | None:
    """Where a zero has a sign other than that on which the exact result and PyTorch's own agree."""
    if not actual.is_floating_point():
        return None
    got, want, own = (t.detach().cpu() for t in (actual, exact, native))
    wrong = (got == 0) & (want == 0) & (own == 0) & (want.signbit() == own.signbit()) & (got.signbit() != own.signbit())
    if not bool(wrong.any()):
        return None
    index = int(wrong.flatten().int().argmax())
    return (
        f"the sign of {int(wrong.sum())} zeros is wrong; at {_index(index, want)} the result is "
        f"{float(got.flatten()[index])!r}, exact is {float(want.flatten()[index])!r}; where signs of zeros are free, "
        "say so: Spec(zero_signs=...)"
    )


def form_mismatch(actual: Tensor, expected: Tensor, other: str = _REFERENCE) -> str | None:
    """A difference in shape, dtype, device or strides (of dimensions with more than one element)."""
    if actual.dtype != expected.dtype:
        return f"the result's dtype is {actual.dtype}, {other}'s is {expected.dtype}"
    if actual.shape != expected.shape:
        return f"the result's shape is {tuple(actual.shape)}, {other}'s is {tuple(expected.shape)}"
    if actual.device != expected.device:
        return f"the result is on {actual.device}, {other}'s is on {expected.device}"
    if actual.numel() == 0:
        return None
    significant = [d for d, size in enumerate(actual.shape) if size > 1]
    if any(actual.stride(d) != expected.stride(d) for d in significant):
        strides = f"the result's strides are {actual.stride()}, {other}'s are {expected.stride()}"
        if other == _REFERENCE and actual.is_contiguous():
            return f"{strides}; if contiguous is meant, return .contiguous() from the reference"
        if other == _REFERENCE and expected.is_contiguous():
            return f"{strides}; let the op return a contiguous result, or the reference one that is laid out so"
        return strides
    return None


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape and dtype have the same bits: -0 differs from 0, a nan equals itself."""
    if a.shape != b.shape:
        return False
    a, b = (t.detach().resolve_conj().contiguous() for t in (a, b))
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    width = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[a.dtype.itemsize]
    return torch.equal(a.view(width), b.view(width))


def same_numbers(a: Tensor, b: Tensor) -> bool:
    """As :func:`same_bits`, but any nan equals any other: on a CPU, a sum of two nans has the bits of the first."""
    if same_bits(a, b):
        return True
    if a.shape != b.shape or not is_approximate(a):
        return False
    a, b = (torch.view_as_real(t) if t.is_complex() else t for t in (a.detach(), b.detach()))
    no_number = a.isnan() & b.isnan()
    return same_bits(a.masked_fill(no_number, 0), b.masked_fill(no_number, 0))


class Copies:
    """Copies of tensors, to see later which of them have changed."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = list(tensors)
        on_host = staged(self._tensors)
        self._copies = [
            copy.detach().clone() if copy is tensor else copy
            for tensor, copy in zip(self._tensors, on_host, strict=True)
        ]

    def changed(self) -> list[int]:
        """The positions of the tensors whose bits have changed."""
        now = staged(self._tensors)
        return [n for n, (copy, own) in enumerate(zip(self._copies, now, strict=True)) if not same_bits(copy, own)]


def share_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors share a storage."""
    return a.numel() > 0 and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have a byte in common."""
    if b.numel() == 0 or not share_memory(a, b):
        return False
    of_a, of_b = _bytes_in_storage(a), _bytes_in_storage(b)
    fewer = min(len(of_a), len(of_b))
    return bool((of_a[:fewer] & of_b[:fewer]).any())


def _bytes_in_storage(tensor: Tensor) -> Tensor:
    """For each byte of the tensor's storage, whether it belongs to the tensor."""
    size = tensor.untyped_storage().nbytes() // tensor.itemsize
    places = torch.arange(size).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    marks = torch.zeros(size, tensor.itemsize, dtype=torch.bool)
    marks[places.flatten()] = True
    return marks.flatten()


def _index(flat: int, tensor: Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), tensor.shape)) if tensor.dim() else ()
