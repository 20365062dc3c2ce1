"""softmax: the operator."""

from torch import Tensor

from trifold.port import Operators, row_output, wire


def register(op: Operators) -> None:
    op.define("softmax(Tensor x) -> Tensor", fake=row_output)
    op.define("softmax_backward(Tensor grad_y, Tensor y) -> Tensor", fake=lambda grad_y, y: row_output(y))
    op.autograd(
        "softmax",
        save=["result"],
        backward=lambda ctx, grad_y: op.softmax_backward(grad_y, *ctx.saved_tensors),
    )
    op.autograd("softmax_backward", save=["grad_y", "y"], backward=_backward_of_backward)


def _backward_of_backward(ctx, grad):  # type: ignore[no-untyped-def]
    grad_y, y = ctx.saved_tensors
    # grad_x = y(grad_y - Σ grad_y·y) is linear in grad_y, with a symmetric matrix, and quadratic in y.
    through_sum = (grad * y).sum(-1, keepdim=True) * grad_y
    return op.softmax_backward(grad, y), grad * (grad_y - (grad_y * y).sum(-1, keepdim=True)) - through_sum


def softmax(x: Tensor) -> Tensor:
    """``exp(x) / exp(x).sum(-1, keepdim=True)``: the softmax over the last dimension.

    Args:
        x: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.

    Returns:
        A contiguous tensor of the shape, dtype and device of ``x``, each row of which sums to 1. Half types are
        computed in float32.

    Raises:
        RuntimeError: ``x`` has another dtype.

    Stable for every finite ``x``, since the row's maximum is subtracted first. A row with nan or +inf, and one of -inf
    alone, is nan throughout, as in torch. The gradient is ``y * (dy - (dy * y).sum(-1))``, from the saved output.

    >>> import torch, trifold
    >>> trifold.load("softmax")(torch.tensor([[1e4, 1e4, -1e4], [0.0, 0.0, float("-inf")]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.5000, 0.5000, 0.0000]])
    """
    y: Tensor = op.softmax(x)
    return y


op = wire(__name__, register, direct=True)
