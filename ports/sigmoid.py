"""sigmoid: the operator."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define("sigmoid(Tensor x) -> Tensor", fake=elementwise_output)
    op.define("sigmoid_backward(Tensor grad_y, Tensor y) -> Tensor", fake=elementwise_output)
    op.autograd(
        "sigmoid",
        save=["result"],
        backward=lambda ctx, grad_y: op.sigmoid_backward(grad_y, *ctx.saved_tensors),
    )
    op.autograd("sigmoid_backward", save=["grad_y", "y"], backward=_backward_of_backward)


def _backward_of_backward(ctx, grad):  # type: ignore[no-untyped-def]
    grad_y, y = ctx.saved_tensors
    # d/d grad_y = y(1 - y), d/dy = grad_y(1 - 2y)
    return op.sigmoid_backward(grad, y), grad * grad_y * (1 - 2 * y)


def sigmoid(x: Tensor) -> Tensor:
    """The logistic function ``1 / (1 + exp(-x))``, elementwise.

    Args:
        x: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.

    Returns:
        A tensor of the shape, dtype and device of ``x``. Half types are computed in float32.

    Raises:
        RuntimeError: ``x`` has another dtype.

    Stable for every ``x``: ±inf give 1 and 0, nan gives nan. The gradient is ``y * (1 - y)``, from the saved output.

    >>> import torch, trifold
    >>> trifold.load("sigmoid")(torch.tensor([-1e5, 0.0, 1e5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    y: Tensor = op.sigmoid(x)
    return y


op = wire(__name__, register, direct=True)
