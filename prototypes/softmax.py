"""softmax: the reference, and the prototype of cuda_src/softmax.cuh."""

import math

import torch
from numba import cuda
from torch import Tensor

from trifold.device import add_compensated, block_max, block_sum, larger, team_max, team_sum
from trifold.prototype import (
    ELEMENTS_PER_THREAD,
    THREADS_PER_BLOCK,
    check_alike,
    check_floating,
    launch_rows,
    output,
    row_output,
    rows,
)

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32


def reference(x: Tensor) -> Tensor:
    if x.dtype != torch.float64:
        return torch.softmax(x, -1)
    exact: Tensor = SumsInPairs.apply(x)
    return exact


class SumsInPairs(torch.autograd.Function):
    """softmax with pairwise sums by torch.sum. torch.softmax adds term by term, which over 100,000 columns accumulates
    an error of 900 round-offs."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        if x.numel() == 0:
            y = torch.empty_like(x, memory_format=torch.contiguous_format)
        else:
            exponentials = torch.exp(x.contiguous() - x.amax(-1, keepdim=True))
            y = exponentials / exponentials.sum(-1, keepdim=True)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):  # type: ignore[no-untyped-def]
        (y,) = ctx.saved_tensors
        return y * (grad_y - (grad_y * y).sum(-1, keepdim=True))


@cuda.jit
def softmax_kernel(x, y, rows, columns):
    """One block per row, in three passes over it: the maximum, the sum, the quotients."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    C = x.dtype.type
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        largest = C(-math.inf)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            largest = larger(largest, x[row, i])
        largest = block_max(largest, of_warp)
        total, lost = C(0), C(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            total, lost = add_compensated(total, lost, math.exp(x[row, i] - largest))
        total = block_sum(total - lost, of_warp)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            y[row, i] = math.exp(x[row, i] - largest) / total


@cuda.jit
def softmax_backward_kernel(grad_y, y, grad_x, rows, columns):
    """One block per row, in two passes: the sum of grad_y * y, and the products."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, y.dtype)
    C = y.dtype.type
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        total, lost = C(0), C(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            total, lost = add_compensated(total, lost, grad_y[row, i] * y[row, i])
        total = block_sum(total - lost, of_warp)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            grad_x[row, i] = y[row, i] * (grad_y[row, i] - total)


@cuda.jit
def softmax_rows_kernel(x, y, rows, columns, team):
    """softmax_kernel with a row in a team's registers: it is read once, and each exp is computed once."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    part = cuda.local.array(ELEMENTS_PER_THREAD, x.dtype)
    C = x.dtype.type
    row = cuda.grid(1) // team
    own = columns if row < rows else 0
    largest = C(-math.inf)
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        part[k] = x[row, i] if i < own else C(-math.inf)
        largest = larger(largest, part[k])
    largest = team_max(largest, of_warp, team)
    total = C(0)
    for k in range(ELEMENTS_PER_THREAD):
        part[k] = math.exp(part[k] - largest)  # 0 past the end of the row
        total += part[k]
    total = team_sum(total, of_warp, team)
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        if i < own:
            y[row, i] = part[k] / total


@cuda.jit
def softmax_backward_rows_kernel(grad_y, y, grad_x, rows, columns, team):
    """softmax_backward_kernel with a row in a team's registers."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, y.dtype)
    grad = cuda.local.array(ELEMENTS_PER_THREAD, y.dtype)
    result = cuda.local.array(ELEMENTS_PER_THREAD, y.dtype)
    C = y.dtype.type
    row = cuda.grid(1) // team
    own = columns if row < rows else 0
    total = C(0)
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        grad[k] = grad_y[row, i] if i < own else C(0)
        result[k] = y[row, i] if i < own else C(0)
        total += grad[k] * result[k]
    total = team_sum(total, of_warp, team)
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        if i < own:
            grad_x[row, i] = result[k] * (grad[k] - total)


def softmax(x: Tensor) -> Tensor:
    check_floating("softmax", x=x)
    y = row_output(x)
    launch_rows(softmax_kernel, softmax_rows_kernel, rows(x), output(rows(y)))
    return y


def softmax_backward(grad_y: Tensor, y: Tensor) -> Tensor:
    check_alike("softmax_backward", grad_y=grad_y, y=y)
    grad_x = row_output(y)
    launch_rows(softmax_backward_kernel, softmax_backward_rows_kernel, rows(grad_y), rows(y), output(rows(grad_x)))
    return grad_x
