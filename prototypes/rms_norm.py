"""rms_norm: the reference, and the prototype of cuda_src/rms_norm.cuh."""

import math

import torch
from numba import cuda, float64
from torch import Tensor

from trifold.device import block_sum
from trifold.port.norms import of_columns, row_statistics
from trifold.prototype import THREADS_PER_BLOCK, check_alike, launch, output, row_output, rows
from trifold.prototype.norms import (
    COLUMN_BLOCK,
    COLUMN_THREADS,
    check_of_columns,
    check_rows,
    column_sum,
    given,
    launch_columns,
    share_rows,
    sum_parts,
)

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32


def reference(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    # Not torch.nn.functional.rms_norm, which makes x̂ of a row with an infinity 0 on the CPU, and nan on a GPU.
    numbers = x if x.dtype == torch.float64 else x.float()
    x_hat = numbers * torch.rsqrt(numbers.square().mean(-1, keepdim=True) + eps)
    return (x_hat if weight is None else x_hat * weight).to(x.dtype).contiguous()


@cuda.jit
def rms_norm_kernel(x, weight, y, rstd, columns, eps):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, float64)
    row = cuda.blockIdx.x
    total = 0.0
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        total += x[row, i] * x[row, i]
    r = 1 / math.sqrt(block_sum(total, of_warp) / columns + eps)
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        x_hat = x[row, i] * r
        y[row, i] = x_hat * weight[i] if weight.size > 0 else x_hat
    if cuda.threadIdx.x == 0:
        rstd[row] = r


@cuda.jit
def rms_norm_backward_kernel(grad, x, weight, rstd, grad_x, columns):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, float64)
    row = cuda.blockIdx.x
    r = rstd[row]
    total = 0.0
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        g = grad[row, i] * (weight[i] if weight.size > 0 else 1)
        total += g * (x[row, i] * r)
    mean_gx = block_sum(total, of_warp) / columns
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        g = grad[row, i] * (weight[i] if weight.size > 0 else 1)
        grad_x[row, i] = r * (g - x[row, i] * r * mean_gx)


@cuda.jit
def rms_norm_weight_gradient_kernel(grad, x, rstd, parts, rows, rows_a_part, columns):
    of_thread = cuda.shared.array((COLUMN_THREADS, COLUMN_BLOCK), float64)
    part = cuda.blockIdx.y
    column = cuda.blockIdx.x * COLUMN_BLOCK + cuda.threadIdx.x
    total = 0.0
    if column < columns:
        end = min((part + 1) * rows_a_part, rows)
        for row in range(part * rows_a_part + cuda.threadIdx.y, end, COLUMN_THREADS):
            total += grad[row, column] * (x[row, column] * rstd[row])
    total = column_sum(total, of_thread)
    if cuda.threadIdx.y == 0 and column < columns:
        parts[0, part, column] = total


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    check_rows("rms_norm", x=x)
    check_of_columns("rms_norm", x, weight=weight)
    y, rstd = row_output(x), row_statistics(x, 1)
    count, columns = rows(x).shape
    outputs = output(rows(y)), output(rstd.view(-1))
    launch(rms_norm_kernel, count * (columns > 0), rows(x), given(weight, x), *outputs, columns, eps)
    return y, rstd


def rms_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, parameters: bool
) -> tuple[Tensor, Tensor]:
    check_rows("rms_norm_backward", x=x)
    check_alike("rms_norm_backward", x=x, grad=grad)
    check_of_columns("rms_norm_backward", x, weight=weight)
    grad_x, grad_weight = row_output(x), of_columns(x, parameters)
    count, columns = rows(x).shape
    operands, r = (rows(grad), rows(x)), rstd.view(-1)
    grid, kernel = count * (columns > 0), rms_norm_backward_kernel
    launch(kernel, grid, *operands, given(weight, x), r, output(rows(grad_x)), columns)
    if parameters:
        shares, rows_a_part = share_rows(count, columns)
        parts = rstd.new_empty((1, shares, columns))
        extent = count, rows_a_part, columns
        launch_columns(rms_norm_weight_gradient_kernel, columns, shares, *operands, r, output(parts), *extent)
        sum_parts(parts, grad_weight)
    return grad_x, grad_weight
