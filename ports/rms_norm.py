"""rms_norm: the operator."""

from torch import Tensor

from trifold.port import Operators, row_output, wire

from ._norms import norm_backward_of_backward, of_columns, row_statistics


def register(op: Operators) -> None:
    # Forward also returns the rstd of each row, for backward.
    op.define(
        "rms_norm(Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor)",
        fake=lambda x, weight, eps: (row_output(x), row_statistics(x, 1)),
    )
    op.define(
        "rms_norm_backward(Tensor grad, Tensor x, Tensor? weight, Tensor rstd, bool parameters) -> (Tensor, Tensor)",
        fake=lambda grad, x, weight, rstd, parameters: (row_output(x), of_columns(x, parameters)),
    )
    op.autograd(
        "rms_norm",
        save=["x", "weight", "result[1]"],
        backward=_backward,
        no_gradient=(1,),
    )
    op.autograd(
        "rms_norm_backward",
        save=lambda grad, x, weight, rstd, parameters, results: (grad, x, weight, rstd, parameters),
        backward=_backward_of_backward,
    )


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    _, of_weight, _ = ctx.needs_input_grad
    grad_x, grad_weight = op.rms_norm_backward(grad, *ctx.saved_tensors, of_weight)
    return grad_x, grad_weight if of_weight else None, None


def _backward_of_backward(ctx, of_grad_x, of_grad_weight):  # type: ignore[no-untyped-def]
    grad, x, weight, rstd = ctx.saved_tensors
    of_parameter = of_grad_weight if ctx.constants[0] else None
    # rstd is a function of x: the derivative through it is included in the gradient of x.
    of_grad, of_x, of_weight = norm_backward_of_backward(grad, x, weight, rstd, of_grad_x, of_parameter, centred=False)
    return of_grad, of_x, of_weight, None, None


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """``x / sqrt(mean(x²) + eps) * weight``, over the last dimension (Zhang and Sennrich 2019).

    Args:
        x: one dimension or more, any strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device. Rows
            that are contiguous and at equal distances are read in place, others are copied first.
        weight: one number per column, of the dtype and device of ``x``; None: 1.
        eps: added to the mean square.

    Returns:
        A contiguous tensor of the shape, dtype and device of ``x``. Half types are computed in float32 and rounded
        once.

    Raises:
        RuntimeError: ``x`` has another dtype or no dimension; ``weight`` differs from ``x`` in dtype or device or does
            not have one number per column. The message names it.

    A row that holds nan is nan throughout; in a row with an infinity, that element is nan and all others are 0. The
    gradient of ``weight`` is summed in a fixed order: it repeats bit for bit.

    >>> import torch, trifold
    >>> trifold.load("rms_norm")(torch.tensor([[3.0, -4.0], [0.0, 0.0]]), torch.tensor([1.0, 2.0]))
    tensor([[ 0.8485, -2.2627],
            [ 0.0000,  0.0000]])
    """
    y: Tensor = op.rms_norm(x, weight, eps)
    return y


op = wire(__name__, register, direct=True)
