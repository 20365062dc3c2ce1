"""softmax: the reference, and the prototype of cuda_src/softmax.cuh."""

import math

import torch
from numba import cuda, float64
from torch import Tensor

from trifold.device import block_max, block_sum, larger
from trifold.prototype import THREADS_PER_BLOCK, check_alike, check_floating, launch, output, row_output, rows

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32


def reference(x: Tensor) -> Tensor:
    if x.dtype != torch.float64:
        return torch.softmax(x, -1)
    exact: Tensor = SumsInPairs.apply(x)
    return exact


class SumsInPairs(torch.autograd.Function):
    """softmax with sums by torch.sum, in pairs. torch.softmax adds up term by term, which of 100,000 columns leaves an
    error of 900 round-offs."""

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
def softmax_kernel(x, y, columns):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, float64)
    row = cuda.blockIdx.x
    largest = -math.inf
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        largest = larger(largest, x[row, i])
    largest = block_max(largest, of_warp)
    total = 0.0
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        total += math.exp(x[row, i] - largest)
    total = block_sum(total, of_warp)
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        y[row, i] = math.exp(x[row, i] - largest) / total


@cuda.jit
def softmax_backward_kernel(grad_y, y, grad_x, columns):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, float64)
    row = cuda.blockIdx.x
    total = 0.0
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        total += grad_y[row, i] * y[row, i]
    total = block_sum(total, of_warp)
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        grad_x[row, i] = y[row, i] * (grad_y[row, i] - total)


def softmax(x: Tensor) -> Tensor:
    check_floating("softmax", x=x)
    y = row_output(x)
    count, columns = rows(x).shape
    launch(softmax_kernel, count * (columns > 0), rows(x), output(rows(y)), columns)
    return y


def softmax_backward(grad_y: Tensor, y: Tensor) -> Tensor:
    check_alike("softmax_backward", grad_y=grad_y, y=y)
    grad_x = row_output(y)
    count, columns = rows(y).shape
    launch(softmax_backward_kernel, count * (columns > 0), rows(grad_y), rows(y), output(rows(grad_x)), columns)
    return grad_x
