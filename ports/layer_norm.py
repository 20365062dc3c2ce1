"""layer_norm: the operator."""

from torch import Tensor

from trifold.port import Operators, row_output, wire

from ._norms import norm_backward_of_backward, of_columns, row_statistics


def register(op: Operators) -> None:
    # Forward also returns the mean of each row followed by the rstd of each, for backward.
    op.define(
        "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor)",
        fake=lambda x, weight, bias, eps: (row_output(x), row_statistics(x, 2)),
    )
    op.define(
        "layer_norm_backward(Tensor grad, Tensor x, Tensor? weight, Tensor statistics, bool parameters) "
        "-> (Tensor, Tensor, Tensor)",
        fake=lambda grad, x, weight, statistics, parameters: (
            row_output(x),
            of_columns(x, parameters),
            of_columns(x, parameters),
        ),
    )
    op.autograd(
        "layer_norm",
        save=["x", "weight", "result[1]"],
        backward=_backward,
        no_gradient=(1,),
    )
    op.autograd(
        "layer_norm_backward",
        save=lambda grad, x, weight, statistics, parameters, results: (grad, x, weight, statistics, parameters),
        backward=_backward_of_backward,
    )


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    _, of_weight, of_bias, _ = ctx.needs_input_grad
    grad_x, grad_weight, grad_bias = op.layer_norm_backward(grad, *ctx.saved_tensors, of_weight or of_bias)
    return grad_x, grad_weight if of_weight else None, grad_bias if of_bias else None, None


def _backward_of_backward(ctx, of_grad_x, of_grad_weight, of_grad_bias):  # type: ignore[no-untyped-def]
    grad, x, weight, statistics = ctx.saved_tensors
    if not ctx.constants[0]:
        of_grad_weight = of_grad_bias = None
    # mean and rstd are functions of x: the derivatives through them are included in the gradient of x.
    upstream = of_grad_x, of_grad_weight, of_grad_bias
    of_grad, of_x, of_weight = norm_backward_of_backward(grad, x, weight, statistics[1], *upstream, centred=True)
    return of_grad, of_x, of_weight, None, None


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, over the last dimension (Ba, Kiros and Hinton 2016).

    Args:
        x: one dimension or more, any strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device. Rows
            that are contiguous and at equal distances are read in place, others are copied first.
        weight: one number per column, of the dtype and device of ``x``; None: 1.
        bias: likewise; None: 0.
        eps: added to the variance, which is the mean square of the differences from the mean.

    Returns:
        A contiguous tensor of the shape, dtype and device of ``x``. Half types are computed in float32 and rounded
        once.

    Raises:
        RuntimeError: ``x`` has another dtype or no dimension; ``weight`` or ``bias`` differs from ``x`` in dtype or
            device or does not have one number per column. The message names it.

    A row that holds nan or an infinity is nan throughout. The gradients of ``weight`` and ``bias`` are summed in a
    fixed order: they repeat bit for bit.

    >>> import torch, trifold
    >>> trifold.load("layer_norm")(torch.tensor([[1.0, 3.0], [5.0, 5.0]]), bias=torch.tensor([0.0, 1.0]))
    tensor([[-1.0000,  2.0000],
            [ 0.0000,  1.0000]])
    """
    y: Tensor = op.layer_norm(x, weight, bias, eps)
    return y


op = wire(__name__, register, direct=True)
