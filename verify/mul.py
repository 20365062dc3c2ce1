"""mul: what it must satisfy."""

import torch

from trifold.spec import (
    Spec,
    elementwise,
    elementwise_bad_calls,
    elementwise_benchmarks,
    elementwise_edges,
    elementwise_large,
    elementwise_large_backward,
    elementwise_smooth,
)

spec = Spec(
    calls=elementwise(2),
    smooth=elementwise_smooth(2),
    edges=elementwise_edges(2),
    bad_calls=elementwise_bad_calls("x", "y"),
    properties=[elementwise_large(2, torch.mul), elementwise_large_backward(2, torch.mul)],
    rounded_once="ports/mul.py: half types are multiplied in float32 and rounded once",
    gradients_rounded_once="each is a product of two half numbers, which float32 holds exactly",
    rounding_error=lambda reference, x, y: torch.zeros_like(x),
    gradient_rounding_error=lambda reference, grad, x, y: (torch.zeros_like(x), torch.zeros_like(y)),
    benchmarks=elementwise_benchmarks(torch.mul, inputs=2, backward_moves=5),
)
