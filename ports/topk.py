"""topk: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define("topk(Tensor x, int k) -> (Tensor, Tensor)", fake=_fake)
    op.define(
        "topk_backward(Tensor grad_values, Tensor indices, int columns) -> Tensor",
        fake=lambda grad_values, indices, columns: grad_values.new_empty(_with_columns(grad_values, columns)),
    )
    # Without zeros for the indices, which have no gradient.
    op.autograd(
        "topk",
        save=lambda x, k, results: (results[1], x.shape[-1] if x.dim() else 1),
        backward=_backward,
        materialize_grads=False,
    )
    op.autograd(
        "topk_backward",
        save=["indices"],
        backward=lambda ctx, grad: (grad.gather(-1, ctx.saved_tensors[0]), None, None),
    )


def _with_columns(x: Tensor, columns: int) -> tuple[int, ...]:
    """The shape of ``x`` with another last dimension. Without any it is a row of one column, and stays so."""
    return (*x.shape[:-1], columns) if x.dim() else ()


def _fake(x, k):  # type: ignore[no-untyped-def]
    shape = _with_columns(x, k)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


def _backward(ctx, grad_values, _):  # type: ignore[no-untyped-def]
    if grad_values is None:
        return None, None
    return op.topk_backward(grad_values, *ctx.saved_tensors, *ctx.constants), None


def topk(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest numbers of each row, which is the last dimension, largest first: ``torch.topk(x, k)``.

    Args:
        x: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device. A tensor without
            dimensions is a row of one column.
        k: from 1 to 64, and no more than the columns of ``x``.

    Returns:
        ``(values, indices)``, both contiguous, of the shape of ``x`` with a last dimension of ``k``: the numbers in the
        dtype of ``x``, and int64. nan is larger than all other numbers, -0 equals +0, and equal numbers come in the
        order of their indices.

    Raises:
        RuntimeError: ``x`` has another dtype, or ``k`` is out of range.

    The gradient of ``values`` goes to the chosen numbers; that of all others is 0. ``indices`` has none.

    >>> import torch, trifold
    >>> values, indices = trifold.load("topk")(torch.tensor([[1.0, 3.0, 2.0, 3.0], [2.0, float("nan"), 5.0, 0.0]]), 2)
    >>> values
    tensor([[3., 3.],
            [nan, 5.]])
    >>> indices
    tensor([[1, 3],
            [1, 2]])
    """
    values, indices = op.topk(x, k)
    return values, indices


op = wire(__name__, register)
