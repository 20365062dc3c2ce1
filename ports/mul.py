"""mul: the operator."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, may_need_gradient, wire


def register(op: Operators) -> None:
    op.define("mul(Tensor x, Tensor y) -> Tensor", fake=elementwise_output)
    op.define(
        "mul_backward(Tensor grad, Tensor x, Tensor y) -> (Tensor, Tensor)",
        fake=lambda grad, x, y: (elementwise_output(x, y), elementwise_output(x, y)),
    )
    op.autograd(
        "mul",
        # Each gradient needs only the other factor.
        save=lambda x, y, out: (x if may_need_gradient(y) else None, y if may_need_gradient(x) else None),
        backward=_backward,
    )
    op.autograd("mul_backward", save=["grad", "x", "y"], backward=_backward_of_backward)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    x, y = ctx.saved_tensors
    if x is None or y is None:
        factor = y if x is None else x
        product = op.mul(grad, factor)
        return (product, None) if x is None else (None, product)
    return op.mul_backward(grad, x, y)


def _backward_of_backward(ctx, grad_of_grad_x, grad_of_grad_y):  # type: ignore[no-untyped-def]
    grad, x, y = ctx.saved_tensors
    both = op.mul(grad_of_grad_x, y) + op.mul(grad_of_grad_y, x)
    return both, op.mul(grad_of_grad_y, grad), op.mul(grad_of_grad_x, grad)


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


op = wire(__name__, register, direct=True)
