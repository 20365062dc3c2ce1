"""Shared by the operators that normalise rows: the shapes of their results, and their second derivatives."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def row_statistics(x: Tensor, kinds: int) -> Tensor:
    """A new, uninitialised tensor of numbers per row of ``x``, as ``row_statistics`` of ``cuda_src/rows/norms.h``.

    Args:
        x: one dimension or more. A fake tensor is fine.
        kinds: numbers per row.

    Returns:
        Of shape (``kinds``, rows of ``x``); float64 for float64, float32 otherwise.
    """
    return x.new_empty(
        (kinds, math.prod(x.shape[:-1])), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32
    )


def of_columns(x: Tensor, wanted: bool) -> Tensor:
    """A new, uninitialised tensor of one number per column of ``x``, in its dtype; empty if not wanted."""
    return x.new_empty(x.shape[-1] if wanted else 0)


def norm_backward_of_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    rstd: Tensor,
    of_grad_x: Tensor,
    of_grad_weight: Tensor | None,
    of_grad_bias: Tensor | None = None,
    *,
    centred: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The gradients for ``grad``, ``x`` and ``weight`` of the backward pass of a norm, in torch's own operators.

    Forward is ``y = x̂·weight + bias`` with ``x̂ = (x - mean)·rstd``; backward, with ``g = grad·weight`` and
    ``P(v) = rstd·(v - mean v - x̂·mean(v·x̂))``, is ``grad_x = P(g)``, ``grad_weight = Σ grad·x̂`` and ``grad_bias =
    Σ grad``. P is symmetric, and the Jacobian of x̂ too.

    Args:
        grad, x: of one shape.
        weight: one number per column, or None for ones.
        rstd: one number per row: 1 / sqrt(variance + eps). Of any shape.
        of_grad_x, of_grad_weight, of_grad_bias: the upstream gradients of the results of backward; None if that result
            is unused.
        centred: whether the mean is subtracted; otherwise all means of x, v and g are omitted.
    """
    dtype = rstd.dtype
    numbers, upstream = x.to(dtype), grad.to(dtype)
    v = of_grad_x.to(dtype)
    w = torch.ones((), dtype=dtype, device=x.device) if weight is None else weight.to(dtype)

    def mean(values: Tensor) -> Tensor:
        return values.mean(-1, keepdim=True)

    def centre(values: Tensor) -> Tensor:
        return values - mean(values) if centred else values

    # rstd as a function of x, for higher derivatives: 1 / rstd² is the variance plus eps, which is constant.
    difference = centre(numbers)
    variance = mean(difference * difference)
    r = (variance + (rstd.view(variance.shape) ** -2 - variance).detach()).rsqrt()
    x_hat = difference * r

    def project(values: Tensor) -> Tensor:
        return r * (centre(values) - x_hat * mean(values * x_hat))

    g = upstream * w
    of_g = project(v)
    of_grad = of_g * w
    of_x_hat = -r * (v * mean(g * x_hat) + g * mean(v * x_hat))
    if of_grad_weight is not None:
        of_grad = of_grad + of_grad_weight.to(dtype) * x_hat
        of_x_hat = of_x_hat + of_grad_weight.to(dtype) * upstream
    if of_grad_bias is not None:
        of_grad = of_grad + of_grad_bias.to(dtype)
    of_x = project(of_x_hat) - r * x_hat * mean(v * project(g))
    of_weight = None
    if weight is not None:
        of_weight = (upstream * of_g).sum_to_size(x.shape[-1:]).to(x.dtype)
    return of_grad.to(x.dtype), of_x.to(x.dtype), of_weight
