"""add: the operator."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define("add(Tensor x, Tensor y) -> Tensor", fake=elementwise_output)
    op.autograd("add", save=[], backward=lambda ctx, grad: (grad, grad))


def add(x: Tensor, y: Tensor) -> Tensor:
    """The sum ``x + y``, elementwise, without broadcasting or type promotion.

    Args:
        x: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
        y: of the same shape, dtype and device as ``x``; its strides may differ.

    Returns:
        A tensor of that shape, dtype and device. Half types are added in float32 and rounded once.

    Raises:
        RuntimeError: another dtype, or shape, dtype or device differ; the message names both.

    >>> import torch, trifold
    >>> trifold.load("add")(torch.tensor([1.0, 2.0]), torch.tensor([0.5, -2.0]))
    tensor([1.5000, 0.0000])
    """
    out: Tensor = op.add(x, y)
    return out


op = wire(__name__, register, direct=True)
