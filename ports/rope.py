"""rope: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, row_output, wire


def register(op: Operators) -> None:
    # With `inverse`, the rotation by the negative angles, which is the gradient of the forward rotation.
    op.define(
        "rope(Tensor q, Tensor k, Tensor cos, Tensor sin, bool inverse) -> (Tensor, Tensor)",
        fake=lambda q, k, *others: (row_output(q), row_output(k)),
    )
    op.autograd("rope", save=_save, backward=_backward, materialize_grads=False)


def _save(q, k, cos, sin, inverse, results):  # type: ignore[no-untyped-def]
    return cos, sin, inverse


def _backward(ctx, grad_q, grad_k):  # type: ignore[no-untyped-def]
    cos, sin = ctx.saved_tensors
    (inverse,) = ctx.constants
    asked = [grad if needed else None for grad, needed in zip((grad_q, grad_k), ctx.needs_input_grad[:2], strict=True)]
    given = [grad for grad in asked if grad is not None]
    if not given:
        return None, None, None, None, None
    # In place of a gradient that is not needed: a tensor without heads.
    no_head = given[0].new_empty((0, *given[0].shape[-2:]))
    turned = op.rope(*(no_head if grad is None else grad for grad in asked), cos, sin, not inverse)
    return *(None if grad is None else out for grad, out in zip(asked, turned, strict=True)), None, None, None


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotary position embedding of queries and keys (Su et al. 2021), in the half-split convention.

    With ``x1, x2 = x.chunk(2, dim=-1)`` for x each of q and k: the concatenation of ``x1 * cos - x2 * sin`` and ``x2 *
    cos + x1 * sin`` along the last dimension. One launch for both.

    Args:
        q: shape (..., T, D), such as (batch, heads, T, D), D even; any strides; float64, float32, float16 or bfloat16;
            on the CPU or a CUDA device. If rows are contiguous and the dimensions before the last two collapse to at
            most two, as in ``q.view(batch, T, heads, D).transpose(1, 2)``, it is read in place; otherwise copied.
        k: shape (..., T, D) with the same T and D; its heads may differ in number; dtype and device of ``q``.
        cos: cosines of the angles, shape (T, D/2), dtype and device of ``q``; row t belongs to row t of q, k.
        sin: sines of the angles, likewise.

    Returns:
        q and k rotated, contiguous, each of its shape, dtype and device. Half types are computed in float32 and rounded
        once.

    Raises:
        RuntimeError: another dtype, or shapes, dtypes or devices that do not fit; the message names the argument. Also
            if a table requires a gradient, which is not supported.

    The gradients of q and k are the upstream gradients rotated by the negative angles.

    >>> import torch, trifold
    >>> x = torch.tensor([[1.0, 0.0]])
    >>> q, k = trifold.load("rope")(x, 2 * x, torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    >>> q, k
    (tensor([[0., 1.]]), tensor([[0., 2.]]))
    """
    if torch.is_grad_enabled():
        for name, table in (("cos", cos), ("sin", sin)):
            if getattr(table, "requires_grad", False):
                raise RuntimeError(f"rope: {name} requires a gradient, but has none here; pass {name}.detach()")
    turned: tuple[Tensor, Tensor] = op.rope(q, k, cos, sin, False)
    return turned


op = wire(__name__, register)
