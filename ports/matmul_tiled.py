"""matmul_tiled: the operator."""

from torch import Tensor

from trifold.port import Operators, may_need_gradient, wire


def register(op: Operators) -> None:
    op.define(
        "matmul_tiled(Tensor a, Tensor b) -> Tensor",
        fake=lambda a, b: a.new_empty((a.shape[0], b.shape[1])),
    )
    op.autograd(
        "matmul_tiled",
        # Each gradient needs only the other factor.
        save=lambda a, b, out: (a if may_need_gradient(b) else None, b if may_need_gradient(a) else None),
        backward=_backward,
    )


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    a, b = ctx.saved_tensors
    # Transposed views: the kernel accepts any strides, and reads along the dimension in which elements are contiguous.
    grad_a = None if b is None else op.matmul_tiled(grad, b.t())
    grad_b = None if a is None else op.matmul_tiled(a.t(), grad)
    return grad_a, grad_b


def matmul_tiled(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product ``a @ b``, by tiles in shared memory; for half types by tensor cores.

    A kernel to read and to learn from: float32 is computed in float32 (no TF32), and products are added in the order of
    K. For speed use ``torch.matmul``.

    A tensor core adds 8 or 16 products of half types at a time, in float32, and truncates sums instead of rounding
    them: a long sum of numbers of one sign is off by up to K units of float32's last place, always towards zero.

    Args:
        a: shape (M, K), any strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
        b: shape (K, N), any strides, of the dtype and device of ``a``.

    Returns:
        A contiguous tensor of shape (M, N), in that dtype; zeros if K is 0. Half types are multiplied and added in
        float32, as above, and rounded to their own type once.

    Raises:
        RuntimeError: another dtype, or shapes, dtypes or devices that do not fit; the message names both.

    The gradients are ``d out @ b.t()`` and ``a.t() @ d out``, by the same kernel; so are those of higher order.

    >>> import torch, trifold
    >>> a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> trifold.load("matmul_tiled")(a, torch.tensor([[1.0], [-1.0]]))
    tensor([[-1.],
            [-1.]])
    """
    out: Tensor = op.matmul_tiled(a, b)
    return out


op = wire(__name__, register)
