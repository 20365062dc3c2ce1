"""layer_norm: what it must satisfy."""

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
    norm_far_from_zero,
    norm_gpu_edges,
    norm_many_rows,
    norm_of_ones,
    norm_one_pass,
    norm_scale_invariant,
    norm_smooth,
    norm_special_parameters,
)

_SAMPLES: tuple[tuple[str, tuple[int, ...], Fill, str], ...] = (
    ("wide", (3, 37), "wide", "numbers of many sizes, of which the largest make the variance"),
    ("special", (20, 3), "squarable", "nan and inf make only their own row nan"),
    ("equal", (2, 300), "zero", "a variance of 0: eps alone is left, inside the root"),
    ("tiny", (2, 300), "tiny", "a variance that underflows"),
)

# In the order of BackwardChoices (cuda_src/rows/norms_backward.h): rows of part of a warp, of a warp, of several warps,
# of a block, of clusters, and the longest. Forward, they are processed in groups, two per team of clusters, or as
# streams. Whole ones first.
_HALVES = (
    *((250, 64), (60, 512), (72, 584), (20, 1640), (20, 2056), (9, 4104), (3, 16_392)),
    # For (9, 5700) tensor cores compute the sums, since its threads have slightly too many pieces.
    *((70, 53), (300, 100), (70, 401), (70, 901), (20, 1501), (20, 2049), (9, 5700), (9, 10_004), (1, 16_401)),
)
# More of the longest whole rows than teams begin with.
_FLOATS = (
    *((9, 32), (300, 100), (9, 1640), (9, 2052), (9, 4100), (7, 16_388)),
    *((70, 23), (70, 102), (70, 203), (9, 1501), (9, 2050), (9, 4102), (1, 16_401)),
)
# Rows, and parameters, whose alignment differs from the result's.
_NOT_IN_ONE_PASS = Call(
    (
        TensorCase((9, 5700), torch.float16, "padded"),
        *(TensorCase((5700,), torch.float16, "offset", seed=seed) for seed in (7, 8)),
    )
)


def eager(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)


def _shift_invariant(function: Callable[..., Tensor], device: str) -> None:
    """Bit for bit, if sums and means are exact: for small whole numbers times a power of two, in 256 columns."""
    for dtype, shift in ((torch.float32, 2.0**12), (torch.float64, 2.0**40), (torch.bfloat16, 64.0)):
        x = TensorCase((5, 256), dtype, fill="exact", seed=2).make(device)
        same = torch.equal(function(x + shift), function(x))
        assert same, f"layer_norm(x + {shift:g}) differs from layer_norm(x) in {dtype}"


def _gradients_sum_to_zero(function: Callable[..., Tensor], device: str) -> None:
    """Sums to 0 along each row, and times x too, up to eps, since neither a shift nor a factor changes anything."""
    for dtype in (torch.float32, torch.float64):
        x = TensorCase((5, 300), dtype, seed=4).make(device).requires_grad_()
        outer = TensorCase((5, 300), dtype, seed=5).make(device)
        (grad,) = torch.autograd.grad(function(x, torch.full_like(x[0], 3.0), eps=0.0), x, outer)
        for name, factor in (("gradients", torch.ones_like(x)), ("gradients times x", x)):
            terms = (grad * factor).detach().double()
            off = float((terms.sum(-1).abs() / terms.abs().sum(-1)).max())
            assert off <= 8 * torch.finfo(dtype).eps, f"{name} in {dtype} sum to {off:.3g} of their size"


def _sizes(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """rstd, and |x̂| before the mean is subtracted: the magnitude of the numbers whose difference is x̂."""
    mean = x.mean(-1, keepdim=True)
    rstd = ((x - mean).square().mean(-1, keepdim=True) + eps).rsqrt()
    return rstd, (x.abs() + x.abs().mean(-1, keepdim=True)) * rstd


def _scale(reference: Callable[..., Tensor], x: Tensor, *more: Tensor | None, **kwargs: float) -> Tensor:
    """y itself, which is rounded once."""
    return reference(x, *more, **kwargs)


def _working_scale(
    reference: Callable[..., Tensor],
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean, difference, variance, root, quotient and two products: eight round-offs, twice the multiple. In float64 the
    exact result is off by as many."""
    _, size = _sizes(x, eps)
    return 4 * (size * (1 if weight is None else weight.abs()) + (0 if bias is None else bias.abs()))


def _gradient_scale(
    reference: Callable[..., Tensor],
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """The gradients themselves, which are rounded once."""
    return tuple(torch.zeros_like(numbers) for numbers in (x, weight, bias) if numbers is not None)


def _gradient_working_scale(
    reference: Callable[..., Tensor],
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """For grad_x its three terms, one of which has x̂ twice; for the others Σ|grad·x̂| and Σ|grad|. Torch's own float64
    has as large an error."""
    rstd, size = _sizes(x, eps)
    g = (grad * (1 if weight is None else weight)).abs()
    of_x = rstd * (g + g.mean(-1, keepdim=True) + size * (g * size).mean(-1, keepdim=True))
    sums = [(grad.abs() * terms).sum_to_size(x.shape[-1:]) for terms in (size, torch.ones_like(size))]
    given = [total for total, numbers in zip(sums, (weight, bias), strict=True) if numbers is not None]
    return tuple(4 * terms for terms in (of_x, *given))


spec = Spec(
    calls=norm_calls(2),
    smooth=norm_smooth(2),
    samples=[
        *(
            Sample(
                f"{name} {dtype}".replace("torch.", ""), Call((TensorCase(shape, dtype, fill=fill), None, None)), why
            )
            for name, shape, fill, why in _SAMPLES
            for dtype in DTYPES
        ),
        *norm_special_parameters(2),
    ],
    edges=norm_edges(2),
    gpu_edges=[*norm_gpu_edges(2, halves=_HALVES, floats=_FLOATS), _NOT_IN_ONE_PASS],
    bad_calls=norm_bad_calls("weight", "bias"),
    properties=[
        Property("shift", _shift_invariant, "layer_norm depends on differences alone; E[x²] - E[x]² does not"),
        norm_scale_invariant(),
        Property("gradient sum", _gradients_sum_to_zero, "layer_norm depends on ratios of differences alone"),
        norm_of_ones({"weight": 1.0, "bias": 0.0}),
        norm_many_rows(("weight", "bias"), eager),
        norm_one_pass(("weight", "bias"), eager),
        norm_far_from_zero(eager),
        row_long(1, eager, multiple=16),
        row_large(1, eager),
        row_large_backward(1, eager),
        row_nan(eager),
    ],
    scale=_scale,
    working_scale=_working_scale,
    gradient_scale=_gradient_scale,
    gradient_working_scale=_gradient_working_scale,
    rounded_once="ports/layer_norm.py: half types are computed in float32 and rounded once",
    gradients_rounded_once="cuda_src/rows/norms.cuh: sums over rows and columns are float32, as are their parts",
    zero_signs="whether x - mean is 0, and of which sign, depends on how the mean was rounded",
    benchmarks=norm_benchmarks("layer_norm", eager, 2),
)
