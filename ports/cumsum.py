"""cumsum: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    # Linear, and adjoint to itself in the other direction: all derivatives are exact.
    op.define("cumsum(Tensor x, bool reverse) -> Tensor", fake=_fake)
    op.autograd(
        "cumsum",
        save=lambda x, reverse, y: (reverse,),
        backward=lambda ctx, grad_y: (op.cumsum(grad_y, not ctx.constants[0]), None),
    )


def _fake(x: Tensor, reverse: bool) -> Tensor:
    return x.new_empty(x.shape, dtype=x.dtype if x.dtype.is_floating_point else torch.int64)


def cumsum(x: Tensor) -> Tensor:
    """``torch.cumsum(x, -1)``: the inclusive prefix sums along the last dimension.

    Args:
        x: any shape and strides; float64, float32, float16, bfloat16, int64 or int32; on the CPU or a CUDA device. A
            0-d tensor is a row of one number.

    Returns:
        A contiguous tensor of the shape, dtype and device of ``x``; int64 for integers, which wrap around.

    Raises:
        RuntimeError: ``x`` has another dtype.

    Half types are summed in float32 and rounded once. From one tile of some thousand numbers to the next the sum is
    carried in float64, so that the error in narrower types does not grow with the row's length. The additions and their
    order depend on the shape alone: results repeat bit for bit. A number that is nan or infinite changes only its own
    and later sums. An intermediate sum that overflows its type makes that and all later results inf or nan, even if the
    final sum would fit.

    The gradient is the sum from the other end, ``dy.flip(-1).cumsum(-1).flip(-1)``, by the same kernels.

    >>> import torch, trifold
    >>> trifold.load("cumsum")(torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]]))
    tensor([[ 1.0000,  3.0000,  6.0000],
            [ 0.5000,  0.5000, -0.5000]])
    """
    y: Tensor = op.cumsum(x, False)
    return y


op = wire(__name__, register)
