"""scatter_add: the operator."""

from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    # Both operators are linear and adjoint to each other, so each is the other's gradient and all higher derivatives
    # are exact.
    op.define(
        "scatter_add(Tensor source, Tensor index, int size) -> Tensor",
        fake=lambda source, index, size: source.new_empty((size, source.shape[1])),
    )
    op.define(
        "scatter_add_backward(Tensor grad, Tensor index) -> Tensor",
        fake=lambda grad, index: grad.new_empty((index.shape[0], grad.shape[1])),
    )
    op.autograd("scatter_add", save=["index"], backward=_backward)
    op.autograd(
        "scatter_add_backward", save=lambda grad, index, result: (index, grad.shape[0]), backward=_backward_of_backward
    )


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    (index,) = ctx.saved_tensors
    return op.scatter_add_backward(grad, index), None, None


def _backward_of_backward(ctx, grad):  # type: ignore[no-untyped-def]
    (index,) = ctx.saved_tensors
    (size,) = ctx.constants
    return op.scatter_add(grad, index, size), None


def scatter_add(source: Tensor, index: Tensor, size: int) -> Tensor:
    """Rows added up by index: ``out[index[r]] += source[r]`` for all rows ``r``, from an ``out`` of zeros.

    Args:
        source: shape (rows, columns), any strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
        index: the row of the result for each row of ``source``, shape (rows,), int64, any stride, on the same device;
            in any order, with repetitions.
        size: rows of the result, 0 or more.

    Returns:
        Shape (size, columns), contiguous, dtype and device of ``source``. Half types are summed in float32 and rounded
        once. Rows are added in no fixed order: if three or more have one index, the last bits of their sum may differ
        from call to call.

    Raises:
        RuntimeError: another dtype, device or shape, or a negative ``size``.

    A row whose index is not in 0 ... size - 1 is ignored, and its gradient is 0: -1, for example, marks rows to skip,
    and does not count from the end. Raising, as torch does on the CPU, would have to wait for a GPU, and torch's
    assertion there makes the process's CUDA context unusable. There is no row of the result that could be set to nan,
    as ``cross_entropy`` does with the loss of a row whose class is out of range.

    The gradient is ``grad[index]``; second derivatives are supported.

    >>> import torch, trifold
    >>> source = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0], [5.0, 5.0]])
    >>> trifold.load("scatter_add")(source, torch.tensor([2, 0, 2, -1]), 3)
    tensor([[ 10.,  20.],
            [  0.,   0.],
            [101., 202.]])
    """
    out: Tensor = op.scatter_add(source, index, size)
    return out


op = wire(__name__, register)
