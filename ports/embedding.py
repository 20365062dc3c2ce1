"""embedding: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define(
        "embedding(Tensor indices, Tensor weight, bool deterministic) -> Tensor",
        fake=lambda indices, weight, deterministic: weight.new_empty((*indices.shape, weight.shape[1])),
    )
    # `order` lists the positions stably sorted by their index: sums are computed in that order. Without it, atomics are
    # used.
    op.define(
        "embedding_backward(Tensor grad, Tensor indices, Tensor? order, int vocabulary) -> Tensor",
        fake=lambda grad, indices, order, vocabulary: grad.new_empty((vocabulary, grad.shape[-1])),
    )
    op.autograd(
        "embedding",
        save=lambda indices, weight, deterministic, out: (indices, weight.shape[0], deterministic),
        backward=_backward,
    )
    op.autograd(
        "embedding_backward",
        save=lambda grad, indices, order, vocabulary, grad_weight: (indices, vocabulary, order is not None),
        backward=_backward_of_backward,
    )


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    (indices,) = ctx.saved_tensors
    vocabulary, deterministic = ctx.constants
    order = indices.flatten().argsort(stable=True) if deterministic else None
    return None, op.embedding_backward(grad, indices, order, vocabulary), None


def _backward_of_backward(ctx, grad):  # type: ignore[no-untyped-def]
    # The rows of the gradient; zeros for an index out of range, whose gradient was ignored.
    (indices,) = ctx.saved_tensors
    vocabulary, deterministic = ctx.constants
    known = (indices >= 0) & (indices < vocabulary)
    return torch.where(known.unsqueeze(-1), op.embedding(indices, grad, deterministic), 0), None, None, None


def embedding(indices: Tensor, weight: Tensor, deterministic: bool = False) -> Tensor:
    """``weight[indices]``: a row of ``weight`` for each index, as ``torch.nn.functional.embedding``.

    Args:
        indices: rows of ``weight``, any shape and strides, int64, on the same device.
        weight: shape (vocabulary, D), any strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
        deterministic: whether the gradient has the same bits each time. The forward pass always does.

    Returns:
        A contiguous tensor of shape ``(*indices.shape, D)``, in the dtype of ``weight``.

    Raises:
        RuntimeError: another dtype, device or number of dimensions.

    An index outside 0 ... vocabulary - 1 makes its row nan, and its gradient is ignored. Raising, as torch does on the
    CPU, would have to wait for a GPU, and torch's assertion there makes the process's CUDA context unusable. Negative
    indices do not count from the end.

    The gradient of ``weight`` is dense. It adds the rows of the upstream gradient with equal indices: by atomics, in
    the order in which a GPU's threads arrive; or, with ``deterministic``, in an order that depends only on ``indices``,
    which are sorted first. Half types are summed in float32 and rounded once. For half types, atomics need a float32
    buffer of the size of ``weight``; ordered sums are slow if a few rows have most of the indices. Second derivatives
    are supported in both.

    >>> import torch, trifold
    >>> weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> trifold.load("embedding")(torch.tensor([1, 0, 1]), weight)
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """
    out: Tensor = op.embedding(indices, weight, deterministic)
    return out


op = wire(__name__, register)
