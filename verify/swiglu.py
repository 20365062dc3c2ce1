"""swiglu: what it must satisfy."""

from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    Call,
    Limits,
    Sample,
    Spec,
    TensorCase,
    elementwise,
    elementwise_bad_calls,
    elementwise_edges,
    elementwise_large,
    elementwise_large_backward,
    elementwise_smooth,
    rows_benchmarks,
)
from trifold.spec.fills import Fill

_FILLS: tuple[tuple[Fill, str], ...] = (
    ("special", "a gate of inf or nan, and infinities that meet zeros"),
    ("huge", "exp overflows: inf / inf is nan, and 0 * inf too"),
    ("wide", "where sigmoid is subnormal it has few digits left, and a large gate multiplies their error"),
)


def _eager(gate: Tensor, up: Tensor) -> Tensor:
    return torch.nn.functional.silu(gate) * up


def _gradient_scale(reference: Callable[..., Tensor], grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """For gate, the terms of 1 + g·(1 - σ) are added: a round-off of σ near 1 enters times |g|."""
    slope = torch.sigmoid(gate) * (1 + gate.abs())
    return (grad * up).abs() * slope, (grad * torch.nn.functional.silu(gate)).abs()


def _off_by(gate: Tensor) -> Tensor:
    """Round-offs of float32: 64 of the hardware's sigmoid (trifold/sigmoid.cuh) and 8 of the products; all digits where
    exp(-gate) overflows, or exp(gate) is subnormal."""
    return torch.where(gate < -87, 2.0**24, 72.0)


def _calls(limits: Limits) -> st.SearchStrategy[Call]:
    # Below -88 silu in float32 is 0, as exp(88) overflows, and nan times inf; in float64 it is not 0 there, and
    # infinite times inf: the result depends on the reference's own rounding.
    def is_exact(call: Call) -> bool:
        gate, up = call.args
        return gate.fill not in ("wide", "range") or getattr(up, "fill", "") != "special"

    return elementwise(2)(limits).filter(is_exact)


spec = Spec(
    calls=_calls,
    smooth=elementwise_smooth(2),
    samples=[
        Sample(
            f"{fill} {dtype}".replace("torch.", ""),
            Call((TensorCase((37,), dtype, fill=fill, seed=1), TensorCase((37,), dtype, seed=2))),
            reason,
        )
        for fill, reason in _FILLS
        for dtype in DTYPES
    ],
    edges=elementwise_edges(2),
    bad_calls=elementwise_bad_calls("gate", "up"),
    properties=[elementwise_large(2, _eager), elementwise_large_backward(2, _eager)],
    # Products and quotients only, so the error is relative to the result itself. The default scale,
    # silu(|gate|)·|up|, would hide a wrong tail.
    scale=lambda reference, gate, up: reference(gate, up),
    gradient_scale=_gradient_scale,
    rounded_once="ports/swiglu.py: half types are computed in float32 and rounded once",
    gradients_rounded_once="cuda_src/swiglu.cuh: half types are computed in float and rounded once",
    rounding_error=lambda reference, gate, up: _off_by(gate) * reference(gate, up).abs(),
    gradient_rounding_error=lambda reference, grad, gate, up: tuple(
        _off_by(gate) * scale for scale in _gradient_scale(reference, grad, gate, up)
    ),
    multiple=6,
    multiple_reason="exp is off by two round-offs; the sum, the quotient and two products add one each",
    benchmarks=rows_benchmarks(_eager, inputs=2, moves=3, backward_moves=5, peers="swiglu"),
)
