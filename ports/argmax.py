"""argmax: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define(
        "argmax(Tensor x) -> (Tensor, Tensor)",
        fake=lambda x: (x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1], dtype=torch.int64)),
    )
    op.define(
        "argmax_backward(Tensor grad_values, Tensor indices, int columns) -> Tensor",
        fake=lambda grad_values, indices, columns: grad_values.new_empty((*grad_values.shape, columns)),
    )
    # Skips zeros for the gradient of the indices, which have none.
    op.autograd("argmax", save=lambda x, results: (results[1], x.shape), backward=_backward, materialize_grads=False)
    op.autograd(
        "argmax_backward",
        save=["indices"],
        backward=lambda ctx, grad: (grad.gather(-1, ctx.saved_tensors[0].unsqueeze(-1)).squeeze(-1), None, None),
    )


def _backward(ctx, grad_values, _):  # type: ignore[no-untyped-def]
    if grad_values is None:
        return None
    (indices,), (shape,) = ctx.saved_tensors, ctx.constants
    # A tensor without dimensions is a row of one column.
    return op.argmax_backward(grad_values, indices, shape[-1] if shape else 1).view(shape)


def argmax(x: Tensor) -> tuple[Tensor, Tensor]:
    """The largest number of each row (the last dimension), and its index: ``torch.max(x, dim=-1)``.

    Args:
        x: any shape with at least one column, and any strides; float64, float32, float16 or bfloat16; on the CPU or a
            CUDA device. A tensor without dimensions is a row of one column.

    Returns:
        ``(values, indices)``, both contiguous, of the shape of ``x`` without its last dimension: the numbers in the
        dtype of ``x``, and int64. nan is larger than all other numbers, -0 equals +0, and ties go to the lowest index.

    Raises:
        RuntimeError: ``x`` has another dtype, or no column.

    The gradient of ``values`` goes to the chosen number and is 0 for all others. ``indices`` has none.

    >>> import torch, trifold
    >>> values, indices = trifold.load("argmax")(torch.tensor([[1.0, 3.0, 3.0], [2.0, float("nan"), 5.0]]))
    >>> values, indices
    (tensor([3., nan]), tensor([1, 1]))
    """
    values, indices = op.argmax(x)
    return values, indices


op = wire(__name__, register)
