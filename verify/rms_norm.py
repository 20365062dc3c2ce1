"""rms_norm: what it must satisfy."""

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
    row_large,
    row_large_backward,
    row_long,
    row_nan,
)
from trifold.spec.fills import Fill

from ._norms import (
    norm_bad_calls,
    norm_benchmarks,
    norm_calls,
    norm_edges,
    norm_gpu_edges,
    norm_many_rows,
    norm_of_ones,
    norm_one_pass,
    norm_scale_invariant,
    norm_smooth,
    norm_special_parameters,
)

_SAMPLES: tuple[tuple[str, tuple[int, ...], Fill, str], ...] = (
    ("wide", (3, 37), "wide", "numbers of many sizes, of which the largest make the mean square"),
    ("special", (20, 3), "squarable", "a row with inf is 0 but there, and one with nan is nan"),
    ("masked", (5, 37), "masked", "a row with inf is 0 but there"),
    ("zero", (2, 300), "zero", "a mean square of 0: eps alone is left, inside the root"),
    ("tiny", (2, 300), "tiny", "a mean square that underflows"),
)

# In the order of BackwardChoices (cuda_src/rows/norms_backward.h): rows of part of a warp, of a warp, of several warps,
# of a block, of clusters, and the longest. Forward, they are processed in groups, two per team of clusters, or as
# streams. Whole ones first.
_HALVES = (
    *((250, 64), (60, 512), (20, 520), (20, 1640), (20, 2056), (9, 4104), (5, 8200), (3, 16_392), (1, 33_800)),
    *((70, 53), (300, 100), (70, 401), (70, 901), (20, 1501), (20, 2049), (9, 4108), (1, 16_401), (1, 33_801)),
)
# More of the longest whole rows than teams begin with.
_FLOATS = (
    *((9, 32), (300, 100), (9, 1640), (9, 2052), (9, 4100), (5, 8196), (3, 32_772)),
    *((70, 23), (70, 102), (70, 203), (9, 1030), (9, 2050), (9, 5002), (1, 16_401), (1, 17_001)),
)


def eager(x: Tensor, weight: Tensor | None = None) -> Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-6)


def _gradients_sum_to_zero(function: Callable[..., Tensor], device: str) -> None:
    """Times x, sums to 0 along each row, up to eps: a factor changes nothing."""
    for dtype in (torch.float32, torch.float64):
        x = TensorCase((5, 300), dtype, seed=4).make(device).requires_grad_()
        outer = TensorCase((5, 300), dtype, seed=5).make(device)
        weight = TensorCase((300,), dtype, seed=6).make(device)
        (grad,) = torch.autograd.grad(function(x, weight, eps=0.0), x, outer)
        terms = (grad * x).detach().double()
        off = float((terms.sum(-1).abs() / terms.abs().sum(-1)).max())
        assert off <= 8 * torch.finfo(dtype).eps, f"gradients times x in {dtype} sum to {off:.3g} of their size"


def _scale(reference: Callable[..., Tensor], x: Tensor, *more: Tensor | None, **kwargs: float) -> Tensor:
    """y itself: all terms of the sum are positive."""
    return reference(x, *more, **kwargs)


def _gradient_scale(
    reference: Callable[..., Tensor], grad: Tensor, x: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, ...]:
    """The gradients themselves, which are rounded once."""
    return tuple(torch.zeros_like(numbers) for numbers in (x, weight) if numbers is not None)


def _gradient_working_scale(
    reference: Callable[..., Tensor], grad: Tensor, x: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, ...]:
    """For grad_x both terms, one of which has x̂ twice; for grad_weight Σ|grad·x̂|. Torch's own float64 has as large an
    error."""
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    size = (x * rstd).abs()
    g = (grad * (1 if weight is None else weight)).abs()
    of_x = rstd * (g + size * (g * size).mean(-1, keepdim=True))
    return (4 * of_x,) if weight is None else (4 * of_x, 4 * (grad.abs() * size).sum_to_size(x.shape[-1:]))


spec = Spec(
    calls=norm_calls(1),
    smooth=norm_smooth(1),
    samples=[
        *(
            Sample(f"{name} {dtype}".replace("torch.", ""), Call((TensorCase(shape, dtype, fill=fill), None)), why)
            for name, shape, fill, why in _SAMPLES
            for dtype in DTYPES
        ),
        *norm_special_parameters(1),
    ],
    edges=norm_edges(1),
    gpu_edges=norm_gpu_edges(1, halves=_HALVES, floats=_FLOATS),
    bad_calls=norm_bad_calls("weight"),
    properties=[
        norm_scale_invariant(),
        Property("gradient sum", _gradients_sum_to_zero, "rms_norm depends on ratios alone"),
        norm_of_ones({"weight": 1.0}),
        norm_many_rows(("weight",), eager),
        norm_one_pass(("weight",), eager),
        row_long(1, eager, multiple=16),
        row_large(1, eager),
        row_large_backward(1, eager),
        row_nan(eager),
    ],
    scale=_scale,
    working_scale=_scale,  # squares, mean, root, quotient and two products: seven round-offs, eight with the one above
    gradient_scale=_gradient_scale,
    gradient_working_scale=_gradient_working_scale,
    rounded_once="ports/rms_norm.py: half types are computed in float32 and rounded once",
    gradients_rounded_once="cuda_src/rows/norms.cuh: sums over rows and columns are float32, as are their parts",
    # The hardware computes a half type's root, to 4 round-offs (cuda_src/rows/moments.cuh).
    rounding_error=lambda reference, *args, **kwargs: 16 * reference(*args, **kwargs),
    benchmarks=norm_benchmarks("rms_norm", eager, 1),
)
