"""swiglu: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define("swiglu(Tensor gate, Tensor up) -> Tensor", fake=lambda gate, up: elementwise_output(gate))
    op.define(
        "swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)",
        fake=lambda grad, gate, up: (elementwise_output(gate, up), elementwise_output(gate, up)),
    )
    op.autograd(
        "swiglu",
        save=["gate", "up"],
        backward=lambda ctx, grad: op.swiglu_backward(grad, *ctx.saved_tensors),
    )
    op.autograd("swiglu_backward", save=["grad", "gate", "up"], backward=_backward_of_backward)


def _backward_of_backward(ctx, grad_of_grad_gate, grad_of_grad_up):  # type: ignore[no-untyped-def]
    grad, gate, up = ctx.saved_tensors
    s = torch.sigmoid(gate)
    silu = gate * s
    slope = s * (1 + gate * (1 - s))
    curvature = s * (1 - s) * (2 + gate * (1 - 2 * s))
    return (
        grad_of_grad_gate * up * slope + grad_of_grad_up * silu,
        grad * (grad_of_grad_gate * up * curvature + grad_of_grad_up * slope),
        grad_of_grad_gate * grad * slope,
    )


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """The gated unit ``silu(gate) * up``, elementwise, with ``silu(g) = g / (1 + exp(-g))`` (Shazeer 2020).

    Args:
        gate: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
        up: of the same shape, dtype and device as ``gate``; its strides may differ. The two halves of one projection,
            ``projected.chunk(2, dim=-1)``, are copied first: two separate projections are faster.

    Returns:
        A tensor of that shape, dtype and device. Half types are computed in float32 and rounded once.

    Raises:
        RuntimeError: another dtype, or shape, dtype or device differ; the message names both.

    As ``torch.nn.functional.silu``: a gate of -inf gives nan, and below about -88 in float32 (-709 in float64), where
    exp overflows, the result is 0.

    >>> import torch, trifold
    >>> trifold.load("swiglu")(torch.tensor([-1.0, 0.0, 20.0]), torch.tensor([1.0, 3.0, 0.5]))
    tensor([-0.2689,  0.0000, 10.0000])
    """
    out: Tensor = op.swiglu(gate, up)
    return out


op = wire(__name__, register, direct=True)
