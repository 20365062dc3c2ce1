"""softmax: what it must satisfy."""

from collections.abc import Callable

import torch
from torch import Tensor

from trifold.spec import (
    DTYPES,
    Call,
    Property,
    Sample,
    Spec,
    TensorCase,
    elementwise_bad_calls,
    row_calls,
    row_edges,
    row_large,
    row_large_backward,
    row_long,
    row_nan,
    row_smooth,
    rows_benchmarks,
)
from trifold.spec.fills import Fill

_LONG_FILLS: tuple[tuple[torch.dtype, Fill], ...] = ((torch.float16, "wide"), (torch.bfloat16, "exact"))


# Columns that no block holds, in whole rows, and in rows that do not begin at 16-byte boundaries.
_CLUSTERS, _HALF_TYPES = (16_392, 16_401), (torch.float16, torch.bfloat16)
# Narrow rows, held by part of a warp; and the longest: whole ones stream, more of them than teams begin with; for the
# others backward has a separate choice.
_FLOATS = ((5, 64), (5, 65), (5, 200), (5, 201), (2, 4100), (2, 4101), (4, 65_540), (1, 131_081))


def eager(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


_SAMPLES: tuple[tuple[str, tuple[int, ...], Fill, str], ...] = (
    ("huge", (3, 37), "huge", "exp overflows where the maximum is not subtracted: inf / inf is nan"),
    ("wide", (3, 37), "wide", "exp of a difference that was rounded to a half type is off by as much as that is large"),
    ("masked", (5, 37), "masked", "exp(-inf) is 0, and is never the maximum"),
    ("special", (16, 3), "special", "nan and inf make only their own row nan"),
)
# All 40 numbers are one, and that of this seed is negative.
_NEGATIVE = "exp of numbers below -745 is 0, unless the maximum, which is negative too, is subtracted"
# 270 terms per thread, many of them small: with fewer, the errors of 256 threads cancel in the sum of all.
_LONG = "a sum in a half type loses each term that is small compared to it"


def _rows_sum_to_one(function: Callable[..., Tensor], device: str) -> None:
    """Within a round-off per element, for numbers of every magnitude."""
    for dtype in DTYPES:
        for columns in (1, 33, 1000):
            y = function(TensorCase((7, columns), dtype, fill="wide", seed=columns).make(device))
            off = float((y.double().sum(-1) - 1).abs().max())
            assert bool((y >= 0).all()), f"a probability in {dtype} is negative"
            assert off <= 8 * torch.finfo(dtype).eps, f"a row of {columns} in {dtype} sums to 1 ± {off:.3g}"


def _shift_invariant(function: Callable[..., Tensor], device: str) -> None:
    """Bit for bit, if the shift is exact: for small whole numbers times a power of two."""
    for dtype in DTYPES:
        x = TensorCase((5, 300), dtype, fill="exact", seed=2).make(device)
        y = function(x)
        for shift in (64.0, -64.0):
            assert torch.equal(function(x + shift), y), f"softmax(x + {shift:g}) differs from softmax(x) in {dtype}"


def _gradients_sum_to_zero(function: Callable[..., Tensor], device: str) -> None:
    """Sums to 0 along each row, since a shift of the row changes nothing."""
    for dtype in (torch.float32, torch.float64):
        x = TensorCase((5, 300), dtype, seed=4).make(device).requires_grad_()
        y = function(x)
        outer = TensorCase((5, 300), dtype, seed=5).make(device)
        (grad,) = torch.autograd.grad(y, x, outer)
        off = (grad.double().sum(-1).abs() / grad.double().abs().sum(-1)).max()
        assert float(off) <= 8 * torch.finfo(dtype).eps, f"gradients in {dtype} sum to {float(off):.3g} of their size"


def _many_long_rows(function: Callable[..., Tensor], device: str) -> None:
    """The longest rows, so many that teams claim them dynamically: as ``eager`` in float64, and the same twice."""
    x = TensorCase((100, 200_000), torch.float32, seed=6).make(device)
    y = function(x)
    want = eager(x.double())
    units = float(((y.double() - want).abs() / (want + want.mean())).max()) / (torch.finfo(x.dtype).eps / 2)
    assert units <= 16, f"{units:.3g} unit round-offs, 16 are allowed"
    assert torch.equal(function(x), y), "other bits, again"


def _scale(reference: Callable[..., Tensor], x: Tensor) -> Tensor:
    """y itself: the errors of exp, sum and quotient are relative to it, also in the tails."""
    return reference(x)


def _off_by(x: Tensor) -> Tensor:
    """1 + |log y|: exp of a difference is off by as many round-offs as its magnitude, and by one more; exp(-inf) is
    exact."""
    return 1 + torch.log_softmax(x, -1).abs().masked_fill(x == -torch.inf, 0)


def _working_scale(reference: Callable[..., Tensor], x: Tensor) -> Tensor:
    return reference(x) * _off_by(x)


def _rounding_error(reference: Callable[..., Tensor], x: Tensor) -> Tensor:
    """The hardware's exp2 is accurate to 4 round-offs, its argument to as many as its magnitude: that of the difference
    from the maximum, or of numbers up to 256 themselves (cuda_src/rows/scaled_exp.cuh). Results below 2^-126 may become
    0."""
    near = x.abs().amax(-1, keepdim=True).clamp(max=256) if x.numel() else x
    return reference(x) * (16 * (1 + _off_by(x)) + 4 * near) + 2.0**-102


def _gradient_scale(reference: Callable[..., Tensor], grad: Tensor, x: Tensor) -> Tensor:
    """y·(|dy| + Σ|dy|·y): what is rounded before the difference cancels; y carries an error relative to itself."""
    y = reference(x)
    return y * (grad.abs() + (grad.abs() * y).sum(-1, keepdim=True))


def _gradient_working_scale(reference: Callable[..., Tensor], grad: Tensor, x: Tensor) -> Tensor:
    """The effect of an error of each y on y·(dy - Σ dy·y)."""
    y, off_by, size = reference(x), _off_by(x), grad.abs()
    of_sum = (size * y * off_by).sum(-1, keepdim=True)
    return y * (off_by * (size + (size * y).sum(-1, keepdim=True)) + of_sum)


spec = Spec(
    calls=row_calls(1),
    smooth=row_smooth(1),
    samples=[
        Sample(f"{name} {dtype}".replace("torch.", ""), Call((TensorCase(shape, dtype, fill=fill),)), reason)
        for name, shape, fill, reason in _SAMPLES
        for dtype in DTYPES
    ]
    + [
        Sample(
            f"negative {dtype}".replace("torch.", ""), Call((TensorCase((40,), dtype, "expanded", "huge"),)), _NEGATIVE
        )
        for dtype in DTYPES
    ]
    + [
        # In float16 most of so many results are subnormal; gradients then have few bits, and need only be finite.
        Sample(f"long {dtype}".replace("torch.", ""), Call((TensorCase((1, 70_001), dtype, fill=fill),)), _LONG)
        for dtype, fill in _LONG_FILLS
    ],
    edges=row_edges(1, columns=(1, 33, 201, 256, 1024, 1025)),  # 201: of several vectors for each of eight lanes
    gpu_edges=[
        *(Call((TensorCase((2, n), dtype),)) for n, dtype in zip(_CLUSTERS, _HALF_TYPES, strict=True)),
        *(Call((TensorCase(shape, torch.float32),)) for shape in _FLOATS),
    ],
    bad_calls=elementwise_bad_calls("x"),
    properties=[
        Property("rows sum to 1", _rows_sum_to_one, "they are probabilities"),
        Property("shift", _shift_invariant, "softmax depends on differences alone"),
        Property("gradient sum", _gradients_sum_to_zero, "softmax depends on differences alone"),
        row_long(1, eager, multiple=16),
        Property(
            "many long rows",
            _many_long_rows,
            "teams claim rows while earlier ones are in flight",
            devices=("cuda",),
            implementations=("port",),
        ),
        row_large(1, eager),
        row_large_backward(1, eager),
        row_nan(eager),
    ],
    scale=_scale,
    working_scale=_working_scale,
    gradient_scale=_gradient_scale,
    gradient_working_scale=_gradient_working_scale,
    # A gradient is computed from a rounded result.
    rounded_once="ports/softmax.py: half types are computed in float32",
    rounding_error=_rounding_error,
    benchmarks=rows_benchmarks(eager, peers="softmax"),
)
