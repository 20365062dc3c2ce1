"""transpose: the operator."""

from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define("transpose(Tensor x) -> Tensor", fake=_fake)
    op.autograd("transpose", save=[], backward=lambda ctx, grad: op.transpose(grad))


def _fake(x):  # type: ignore[no-untyped-def]
    return x.new_empty((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def transpose(x: Tensor) -> Tensor:
    """``x.transpose(-1, -2).contiguous()``: a matrix, or each of a batch of matrices, with rows and columns swapped.

    Args:
        x: of two dimensions or more, shape (..., R, C), any strides and any dtype whose elements have 1, 2, 4 or 8
            bytes (all but complex128); on the CPU or a CUDA device. Where the elements of a row are not adjacent, or
            no single stride leads from matrix to matrix, it is copied first.

    Returns:
        A contiguous tensor of shape (..., C, R), of the dtype and device of ``x``, bit for bit its elements; never a
        view.

    Raises:
        RuntimeError: ``x`` has fewer than two dimensions, or is complex128.

    The gradient is the transpose of the upstream gradient, for floating and complex dtypes. Elements of 1 and 2 bytes
    move fastest where R and C are multiples of 4 and 2.

    >>> import torch, trifold
    >>> trifold.load("transpose")(torch.tensor([[1, 2, 3], [4, 5, 6]]))
    tensor([[1, 4],
            [2, 5],
            [3, 6]])
    """
    y: Tensor = op.transpose(x)
    return y


op = wire(__name__, register, direct=True)
