"""cross_entropy: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, may_need_gradient, row_output, wire
from trifold.port.reuse import is_last_use, saves_without_hooks

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def register(op: Operators) -> None:
    # The second result is p - q, the gradient of each row's loss, of the shape of the logits; empty unless requested.
    # The third, for the mean, is the number of rows that are not ignored, of shape (1,); otherwise empty. p - q is
    # divided by it, except in float16, whose range the quotient might leave: there, backward divides.
    op.define(
        "cross_entropy(Tensor logits, Tensor target, int ignore_index, float label_smoothing, int reduction, "
        "bool with_gradient) -> (Tensor, Tensor, Tensor)",
        fake=_fake,
    )
    op.define(
        "cross_entropy_backward(Tensor grad_loss, Tensor residual, Tensor target, Tensor count, int ignore_index) "
        "-> Tensor",
        fake=lambda grad_loss, residual, *others: row_output(residual),
    )
    # The same in place: the residual is left unchanged where it already is the gradient.
    op.define(
        "cross_entropy_backward_(Tensor grad_loss, Tensor(a!) residual, Tensor target, Tensor count, int ignore_index) "
        "-> ()",
        fake=lambda *_: None,
    )
    # Skips zeros for results without a gradient: p - q has one only in second derivatives.
    op.autograd("cross_entropy", save=_save, backward=_backward, materialize_grads=False)
    op.autograd("cross_entropy_backward", save=_save_backward, backward=_backward_of_backward)


def _fake(logits, target, ignore_index, label_smoothing, reduction, with_gradient):  # type: ignore[no-untyped-def]
    loss = logits.new_empty(target.shape if reduction == _REDUCTIONS["none"] else ())
    residual = row_output(logits) if with_gradient else logits.new_empty(0)
    return loss, residual, target.new_empty(1 if reduction == _REDUCTIONS["mean"] else 0)


def _save(logits, target, ignore_index, label_smoothing, reduction, with_gradient, results):  # type: ignore[no-untyped-def]
    _, residual, count = results
    return residual, target, count, ignore_index, label_smoothing, saves_without_hooks()


def _backward(ctx, grad_loss, grad_residual, _):  # type: ignore[no-untyped-def]
    residual, target, count = ctx.saved_tensors
    ignore_index, label_smoothing, alone = ctx.constants
    if residual.numel() == 0 < target.numel():
        raise RuntimeError(
            "cross_entropy: logits require a gradient, but with_gradient is False; pass True, or logits.detach()"
        )
    grad = None
    if grad_loss is not None and grad_residual is None and alone and is_last_use(residual, grad_loss):
        op.cross_entropy_backward_(grad_loss, residual, target, count, ignore_index)
        grad = residual.detach()
    elif grad_loss is not None:
        grad = op.cross_entropy_backward(grad_loss, residual, target, count, ignore_index)
    if grad_residual is not None:
        # The second derivative: the Jacobian of softmax.
        divided = count.numel() > 0 and not _divides_late(residual)
        p = (residual * count if divided else residual) + _smoothed(residual, target, label_smoothing)
        weighted = _of_kept_rows(p * grad_residual, target, ignore_index)
        second = weighted - p * weighted.sum(-1, keepdim=True)
        if divided:
            second = second / count.clamp(min=1)
        grad = second if grad is None else grad + second
    return grad, None, None, None, None, None


def _divides_late(residual: Tensor) -> bool:
    """Whether backward, instead of forward, divides by the number of rows."""
    return residual.dtype == torch.float16


def _smoothed(like: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
    """q: the target distribution."""
    classes = like.shape[-1]
    q = torch.full_like(like, label_smoothing / classes)
    at = target.clamp(0, classes - 1).unsqueeze(-1)
    return q.scatter_add(-1, at, torch.full_like(at, 1 - label_smoothing, dtype=like.dtype))


def _of_kept_rows(x: Tensor, target: Tensor, ignore_index: int) -> Tensor:
    return torch.where((target != ignore_index).unsqueeze(-1), x, 0)


def _save_backward(grad_loss, residual, target, count, ignore_index, result):  # type: ignore[no-untyped-def]
    return grad_loss, residual, target, count, ignore_index


def _backward_of_backward(ctx, grad):  # type: ignore[no-untyped-def]
    grad_loss, residual, target, count = ctx.saved_tensors
    (ignore_index,) = ctx.constants
    of_rows = _of_kept_rows(grad * residual, target, ignore_index).sum(-1)
    if grad_loss.dim() < target.dim():
        of_rows = of_rows.sum()
    if count.numel() > 0 and _divides_late(residual):
        of_rows = of_rows / count.reshape(())
    of_residual = op.cross_entropy_backward(grad_loss, grad, target, count, ignore_index)
    return of_rows, of_residual, None, None, None


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """The cross entropy between the classes ``target`` and ``softmax(logits)``, as torch's function of that name.

    The gradient is computed in the forward pass if one will be needed, and uses as much memory as torch's
    log-probabilities; there is no tensor of probabilities. Backward returns that memory, unless the graph is retained.

    Args:
        logits: shape (N, C) or (C,), any strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
            torch's (N, C, d1, ...), whose classes are not in rows, is refused: pass
            ``logits.movedim(1, -1).flatten(0, -2)`` and ``target.flatten()``.
        target: the class of each row, shape (N,) or (), int64, on the same device.
        ignore_index: rows of this class have loss 0 and gradient 0, and do not count in the mean.
        label_smoothing: from 0 to 1; this share of each row's weight is distributed evenly over all classes.
        reduction: ``"none"``, ``"mean"`` over the rows that are not ignored (nan if there are none), or ``"sum"``.

    Returns:
        The loss in the dtype of ``logits``: of the shape of ``target`` for ``"none"``, else a scalar. Half types are
        computed and summed in float32, always in the same order.

    Raises:
        RuntimeError: another dtype, device or shape, or no class at all.
        ValueError: another ``reduction``, or ``label_smoothing`` outside [0, 1].

    A class outside 0 ... C - 1 makes its row's loss and gradient nan. Raising, as torch does on the CPU, would have to
    wait for a GPU, and torch's assertion there makes the process's CUDA context unusable. The gradient is
    ``(softmax(logits) - q) * d loss``, with q the smoothed distribution; second derivatives are supported.

    >>> import torch, trifold
    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 50.0], [1.0, 2.0]])
    >>> trifold.load("cross_entropy")(logits, torch.tensor([0, 1, -100]), reduction="none")
    tensor([0.6931, 0.0000, 0.0000])
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"cross_entropy: reduction must be 'none', 'mean' or 'sum', not {reduction!r}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing must be from 0 to 1, but is {label_smoothing}")
    with_gradient = torch.is_grad_enabled() and may_need_gradient(logits)
    loss: Tensor = op.cross_entropy(
        logits, target, ignore_index, label_smoothing, _REDUCTIONS[reduction], with_gradient
    )[0]
    return loss


op = wire(__name__, register, direct=True)
