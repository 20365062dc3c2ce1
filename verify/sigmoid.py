"""sigmoid: what it must satisfy."""

import torch
from hypothesis import strategies as st

from trifold.spec import (
    Call,
    Limits,
    Sample,
    Spec,
    TensorCase,
    elementwise,
    elementwise_bad_calls,
    elementwise_benchmarks,
    elementwise_edges,
    elementwise_large,
    elementwise_large_backward,
    elementwise_smooth,
)
from trifold.spec.fills import Fill

_OVERFLOW = "exp overflows where the argument is not made negative first: inf / inf is nan"
_FILLS: tuple[tuple[Fill, str], ...] = (
    ("special", _OVERFLOW),
    ("huge", _OVERFLOW),
    ("wide", "the relative error of exp grows with its argument where that is rounded"),
)


def _calls(limits: Limits) -> st.SearchStrategy[Call]:
    # Below -709 torch's sigmoid in float64 is 0, as exp(709) overflows, while the exact result is subnormal: the
    # reference shows nothing there.
    def is_exact(call: Call) -> bool:
        return call.args[0].fill != "range" or call.dtype != torch.float64

    return elementwise(1)(limits).filter(is_exact)


spec = Spec(
    calls=_calls,
    smooth=elementwise_smooth(1),
    samples=[
        Sample(
            f"{fill} {dtype}".replace("torch.", ""),
            Call((TensorCase((37,), dtype, fill=fill),)),
            reason,
        )
        for fill, reason in _FILLS
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    ],
    edges=elementwise_edges(1),
    bad_calls=elementwise_bad_calls("x"),
    properties=[elementwise_large(1, torch.sigmoid), elementwise_large_backward(1, torch.sigmoid)],
    # exp is accurate to a few ulp of its own value, and the sum and the quotient add half an ulp each: the error
    # is relative to y itself. The default scale, sigmoid(|x|) ≥ 1/2, would hide a wrong tail.
    scale=lambda reference, x: reference(x),
    # The gradient is computed from the saved output: a round-off of y, relative to y, enters it times |1 - 2y| ≤ 1. y
    # is off by up to 3, a difference and two products add one each.
    gradient_scale=lambda reference, grad, x: 1.5 * (grad * reference(x)).abs(),
    rounded_once="ports/sigmoid.py: half types are computed in float32",
    # On a GPU by the hardware's exp and quotient (trifold/sigmoid.cuh). Gradients are computed from a rounded result.
    rounding_error=lambda reference, x: 64 * reference(x),
    benchmarks=elementwise_benchmarks(torch.sigmoid, backward_moves=3),
)
