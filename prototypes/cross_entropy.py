"""cross_entropy: the reference, and the prototype of cuda_src/cross_entropy.cuh."""

import math

import torch
import torch.nn.functional as F
from numba import cuda, int64
from torch import Tensor

from trifold.device import add_compensated, block_max, block_sum, larger, team_max, team_sum
from trifold.prototype import (
    ELEMENTS_PER_THREAD,
    THREADS_PER_BLOCK,
    check_floating,
    launch,
    launch_rows,
    output,
    row_output,
    rows,
    threads_for,
)

# ------------------------------------------------------------------------------------------------- reference


def reference(
    logits: Tensor,
    target: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    if target.dim() == 0:
        # As one row of a matrix: for a single row that is ignored, torch's mean is nan on the CPU and 0 on a GPU.
        losses = reference(logits[None], target[None], ignore_index, label_smoothing, reduction)
        return losses.squeeze(0) if reduction == "none" else losses
    if logits.dtype == torch.float64:
        return _exact(logits, target, ignore_index, label_smoothing, reduction)
    return F.cross_entropy(
        logits, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )


def _exact(logits: Tensor, target: Tensor, ignore_index: int, label_smoothing: float, reduction: str) -> Tensor:
    """F.cross_entropy by the kernel's formula. torch's log_softmax adds term by term, which over 100,000 columns
    accumulates an error of 900 round-offs; with label smoothing, its gradient multiplies p by the sum of all q, which
    is 1 only up to rounding. torch also sums rows that are not contiguous term by term."""
    below = (logits - logits.detach().amax(-1, keepdim=True)).contiguous()
    counted = target != ignore_index
    losses = F.nll_loss(below, target, ignore_index=ignore_index, reduction="none")
    if label_smoothing > 0:
        losses = (1 - label_smoothing) * losses - label_smoothing * torch.where(counted, below.mean(-1), 0.0)
    losses = losses + torch.where(counted, below.exp().sum(-1).log(), 0.0)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / counted.sum()


# ------------------------------------------------------------------------------------------------- prototype

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32

NONE, MEAN, SUM = 0, 1, 2  # numbered as in torch's own operators


@cuda.jit
def cross_entropy_kernel(logits, targets, ignored, losses, residual, count, rows, columns, label_smoothing):
    """One block per row: the maximum, the sum, then the loss, and the gradient if ``residual`` has rows."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, logits.dtype)
    C = logits.dtype.type
    smoothing = C(label_smoothing)
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        target = targets[row]
        if target == ignored:
            if cuda.threadIdx.x == 0:
                losses[row] = 0
            if residual.shape[0] > 0:
                for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
                    residual[row, i] = 0
            continue
        largest = C(-math.inf)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            largest = larger(largest, logits[row, i])
        largest = block_max(largest, of_warp)
        total, total_lost = C(0), C(0)  # of exp(x - m)
        plain, plain_lost = C(0), C(0)  # of x - m
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            shifted = logits[row, i] - largest
            total, total_lost = add_compensated(total, total_lost, math.exp(shifted))
            if smoothing > 0:  # avoids -inf · 0 = nan
                plain, plain_lost = add_compensated(plain, plain_lost, shifted)
        total = block_sum(total - total_lost, of_warp)
        plain = block_sum(plain - plain_lost, of_warp)
        known = target >= 0 and target < columns
        if cuda.threadIdx.x == 0:
            at_target = logits[row, target] - largest if known else C(math.nan)
            loss = math.log(total) - (C(1) - smoothing) * at_target
            losses[row] = loss - smoothing * (plain / C(columns)) if smoothing > 0 else loss
        if residual.shape[0] > 0:
            everywhere = smoothing / C(columns) if known else C(math.nan)
            share = C(1) / C(count[0]) if count.size > 0 else C(1)
            for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
                q = everywhere + (C(1) - smoothing) if i == target else everywhere
                residual[row, i] = (math.exp(logits[row, i] - largest) / total - q) * share


@cuda.jit
def cross_entropy_rows_kernel(logits, targets, ignored, losses, residual, count, rows, columns, smoothing, team):
    """cross_entropy_kernel with a row in a team's registers: it is read once, and each exp is computed once."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, logits.dtype)
    part = cuda.local.array(ELEMENTS_PER_THREAD, logits.dtype)
    C = logits.dtype.type
    smooth = C(smoothing)
    row = cuda.grid(1) // team
    target = targets[row] if row < rows else ignored
    own = columns if target != ignored else 0
    largest = C(-math.inf)
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        part[k] = logits[row, i] if i < own else C(-math.inf)
        largest = larger(largest, part[k])
    largest = team_max(largest, of_warp, team)
    total = C(0)
    plain = C(0)
    for k in range(ELEMENTS_PER_THREAD):
        shifted = part[k] - largest
        if smooth > 0 and cuda.threadIdx.x % team + k * team < own:
            plain += shifted
        part[k] = math.exp(shifted)
        total += part[k]
    total = team_sum(total, of_warp, team)
    plain = team_sum(plain, of_warp, team)
    known = target >= 0 and target < columns
    if row < rows and cuda.threadIdx.x % team == 0:
        at_target = logits[row, target] - largest if known else C(math.nan)
        loss = math.log(total) - (C(1) - smooth) * at_target
        if smooth > 0:
            loss -= smooth * (plain / C(columns))
        losses[row] = loss if target != ignored else C(0)
    if row < rows and residual.shape[0] > 0:
        everywhere = smooth / C(columns) if known else C(math.nan)
        share = C(1) / C(count[0]) if count.size > 0 else C(1)
        for k in range(ELEMENTS_PER_THREAD):
            i = cuda.threadIdx.x % team + k * team
            if i < columns:
                q = everywhere + (C(1) - smooth) if i == target else everywhere
                residual[row, i] = (part[k] / total - q) * share if target != ignored else C(0)


@cuda.jit
def cross_entropy_count_kernel(targets, ignored, count, rows):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, int64)
    counted = 0
    for row in range(cuda.threadIdx.x, rows, cuda.blockDim.x):
        if targets[row] != ignored:
            counted += 1
    counted = block_sum(counted, of_warp)
    if cuda.threadIdx.x == 0:
        count[0] = counted


@cuda.jit
def cross_entropy_total_kernel(losses, targets, ignored, loss, count, rows):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, losses.dtype)
    counted_of_warp = cuda.shared.array(WARPS_PER_BLOCK, int64)
    C = losses.dtype.type
    total = C(0)
    counted = 0
    for row in range(cuda.threadIdx.x, rows, cuda.blockDim.x):
        total += losses[row]
        if targets[row] != ignored:
            counted += 1
    total = block_sum(total, of_warp)
    counted = block_sum(counted, counted_of_warp)
    if cuda.threadIdx.x == 0:
        if count.size == 0:
            loss[0] = total
        else:
            loss[0] = total / C(counted) if counted > 0 else C(math.nan)
            count[0] = counted


@cuda.jit
def cross_entropy_backward_kernel(grad_loss, residual, targets, ignored, count, grad_logits, rows, columns):
    C = residual.dtype.type
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        skipped = targets[row] == ignored
        factor = grad_loss[row if grad_loss.size > 1 else 0]
        if count.size > 0:
            factor = factor / C(count[0])
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            grad_logits[row, i] = C(0) if skipped else factor * residual[row, i]


def cross_entropy(
    logits: Tensor, target: Tensor, ignore_index: int, label_smoothing: float, reduction: int, with_gradient: bool
) -> tuple[Tensor, Tensor, Tensor]:
    check_floating("cross_entropy", logits=logits)
    _check_target("cross_entropy", target, logits=logits)
    known = reduction in (NONE, MEAN, SUM)
    _check(known, f"cross_entropy: reduction must be 0, 1 or 2, but is {reduction}", "0 is none, 1 the mean, 2 the sum")
    x = rows(logits)
    count_of_rows, _ = x.shape
    targets = target.reshape(-1)
    loss = logits.new_empty(target.shape if reduction == NONE else ())
    residual = row_output(logits) if with_gradient else logits.new_empty(0)
    count = target.new_empty(1 if reduction == MEAN else 0)
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    losses = loss.reshape(-1) if reduction == NONE else logits.new_empty(count_of_rows, dtype=wide)
    gradient = rows(residual) if with_gradient else logits.new_empty(0, 1)
    divisor = count if with_gradient and not _divides_late(logits) else count[:0]
    if divisor.numel() > 0:
        outputs, block = (output(divisor), count_of_rows), threads_for(count_of_rows)
        launch(cross_entropy_count_kernel, 1, targets, ignore_index, *outputs, block=block)
    launch_rows(
        cross_entropy_kernel,
        cross_entropy_rows_kernel,
        *(x, targets, ignore_index, output(losses), output(gradient), divisor),
        after=(label_smoothing,),
    )
    if reduction != NONE:
        launch(
            cross_entropy_total_kernel,
            1,
            *(losses, targets, ignore_index, output(loss.reshape(1)), output(count), count_of_rows),
            block=threads_for(count_of_rows),
        )
    return loss, residual, count


def cross_entropy_backward(
    grad_loss: Tensor, residual: Tensor, target: Tensor, count: Tensor, ignore_index: int
) -> Tensor:
    grad_logits = row_output(residual)
    _scale(grad_loss, residual, target, count, ignore_index, grad_logits)
    return grad_logits


def cross_entropy_backward_(
    grad_loss: Tensor, residual: Tensor, target: Tensor, count: Tensor, ignore_index: int
) -> None:
    _scale(grad_loss, residual, target, count, ignore_index, residual)


def _scale(
    grad_loss: Tensor, residual: Tensor, target: Tensor, count: Tensor, ignore_index: int, grad_logits: Tensor
) -> None:
    check_floating("cross_entropy_backward", residual=residual)
    _check_target("cross_entropy_backward", target, residual=residual)
    right = grad_loss.dtype == residual.dtype and grad_loss.shape in (target.shape, ())
    _check(right, "cross_entropy_backward: grad_loss must be like the result", "pass its gradient")
    x = rows(residual)
    count_of_rows, columns = x.shape
    divisor = count if _divides_late(residual) else count[:0]
    launch(
        cross_entropy_backward_kernel,
        count_of_rows,
        *(grad_loss.reshape(-1), x, target.reshape(-1), ignore_index, divisor, output(rows(grad_logits))),
        *(count_of_rows, columns),
        block=threads_for(columns),
    )


def _divides_late(residual: Tensor) -> bool:
    return residual.dtype == torch.float16


def _check_target(op: str, target: Tensor, **of: Tensor) -> None:
    ((name, x),) = of.items()
    _check(target.dtype == torch.int64, f"{op}: target must be int64, not {target.dtype}", "use target.long()")
    _check(
        target.device == x.device,
        f"{op}: {name} and target must be on the same device, but {name} is on {x.device} "
        f"and target is on {target.device}",
        f"move one with target.to({name}.device)",
    )
    _check(
        x.dim() in (1, 2) and target.shape == x.shape[:-1],
        f"{op}: {name} and target must have the shapes (N, C) and (N,), or (C,) and (), but {name} is "
        f"{tuple(x.shape)} and target is {tuple(target.shape)}",
        "of more dimensions move the classes last, and flatten the others",
    )
    _check(x.shape[-1] > 0, f"{op}: {name} must have a class, but is of shape {tuple(x.shape)}", "pass a column")


def _check(condition: bool, problem: str, remedy: str) -> None:
    if not condition:
        raise RuntimeError(f"{problem}; {remedy}")
