"""mul: the operator."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define("mul(Tensor x, Tensor y) -> Tensor", fake=elementwise_output)
    op.autograd(
        "mul",
        # Each gradient needs the other factor only.
        save=lambda x, y, out: (x if y.requires_grad else None, y if x.requires_grad else None),
        backward=_backward,
    )


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    x, y = ctx.saved_tensors
    return (
        op.mul(grad, y) if ctx.needs_input_grad[0] else None,
        op.mul(grad, x) if ctx.needs_input_grad[1] else None,
    )


def mul(x: Tensor, y: Tensor) -> Tensor:
    """The product ``x * y``, elementwise, without broadcasting or type promotion.

    Args:
        x: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
        y: of the same shape, dtype and device as ``x``; its strides may differ.

    Returns:
        A tensor of that shape, dtype and device. Half types are multiplied in float32 and rounded once.

    Raises:
        RuntimeError: another dtype, or shape, dtype or device differ; the message names both.

    >>> import torch, trifold
    >>> trifold.load("mul")(torch.tensor([1.0, 2.0]), torch.tensor([0.5, -2.0]))
    tensor([ 0.5000, -4.0000])
    """
    out: Tensor = op.mul(x, y)
    return out


op = wire(__name__, register)
