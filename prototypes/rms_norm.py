"""rms_norm: the reference, and the prototype of cuda_src/rms_norm.cuh."""

import math

import torch
from numba import cuda
from torch import Tensor

from trifold.device import add_compensated, block_sum, team_sum
from trifold.prototype import (
    ELEMENTS_PER_THREAD,
    THREADS_PER_BLOCK,
    check_alike,
    launch,
    launch_rows,
    output,
    row_output,
    rows,
    threads_for,
)

from ._norms import (
    COLUMN_BLOCK,
    COLUMN_THREADS,
    check_of_columns,
    check_rows,
    column_sum,
    given,
    launch_columns,
    of_columns,
    row_statistics,
    share_rows,
    sum_parts,
)

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32


def reference(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    # Not torch.nn.functional.rms_norm: for a row with an infinity, its x̂ is 0 on the CPU, and nan on a GPU.
    numbers = x if x.dtype == torch.float64 else x.float()
    x_hat = numbers * torch.rsqrt(numbers.square().mean(-1, keepdim=True) + eps)
    return (x_hat if weight is None else x_hat * weight).to(x.dtype).contiguous()


@cuda.jit
def rms_norm_kernel(x, weight, y, rstd, rows, columns, eps):
    """One block per row, in two passes over it: the sum of squares, then the result."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    C = x.dtype.type
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        squares = C(0)
        lost = C(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            squares, lost = add_compensated(squares, lost, x[row, i] * x[row, i])
        r = C(1) / math.sqrt(block_sum(squares - lost, of_warp) / C(columns) + C(eps))
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            x_hat = x[row, i] * r
            y[row, i] = x_hat * weight[i] if weight.size > 0 else x_hat
        if cuda.threadIdx.x == 0:
            rstd[row] = r


@cuda.jit
def rms_norm_rows_kernel(x, weight, y, rstd, rows, columns, eps, team):
    """rms_norm_kernel with a row in a team's registers: it is read once."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    part = cuda.local.array(ELEMENTS_PER_THREAD, x.dtype)
    C = x.dtype.type
    row = cuda.grid(1) // team
    own = columns if row < rows else 0
    squares = C(0)
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        part[k] = x[row, i] if i < own else C(0)
        squares += part[k] * part[k]
    r = C(1) / math.sqrt(team_sum(squares, of_warp, team) / C(columns) + C(eps))
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        if i < own:
            x_hat = part[k] * r
            y[row, i] = x_hat * weight[i] if weight.size > 0 else x_hat
    if row < rows and cuda.threadIdx.x % team == 0:
        rstd[row] = r


@cuda.jit
def rms_norm_backward_kernel(grad, x, weight, rstd, grad_x, rows, columns):
    """One block per row, in two passes over it: the sum of g * x_hat, then the result."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    C = x.dtype.type
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        r = rstd[row]
        total = C(0)
        lost = C(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            g = grad[row, i] * (weight[i] if weight.size > 0 else C(1))
            total, lost = add_compensated(total, lost, g * (x[row, i] * r))
        mean_gx = block_sum(total - lost, of_warp) / C(columns)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            g = grad[row, i] * (weight[i] if weight.size > 0 else C(1))
            grad_x[row, i] = r * (g - x[row, i] * r * mean_gx)


@cuda.jit
def rms_norm_weight_gradient_kernel(grad, x, rstd, parts, rows, rows_a_part, columns):
    """The first step of the gradient of weight: the sums over part of the rows."""
    of_thread = cuda.shared.array((COLUMN_THREADS, COLUMN_BLOCK), x.dtype)
    C = x.dtype.type
    part = cuda.blockIdx.y
    column = cuda.blockIdx.x * COLUMN_BLOCK + cuda.threadIdx.x
    total = C(0)
    lost = C(0)
    if column < columns:
        begin = part * rows_a_part
        end = begin + rows_a_part if begin + rows_a_part < rows else rows
        for row in range(begin + cuda.threadIdx.y, end, COLUMN_THREADS):
            total, lost = add_compensated(total, lost, grad[row, column] * (x[row, column] * rstd[row]))
    total = column_sum(total - lost, of_thread)
    if cuda.threadIdx.y == 0 and column < columns:
        parts[0, part, column] = total


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    check_rows("rms_norm", x=x)
    check_of_columns("rms_norm", x, weight=weight)
    y, rstd = row_output(x), row_statistics(x, 1)
    outputs = output(rows(y)), output(rstd.view(-1))
    launch_rows(rms_norm_kernel, rms_norm_rows_kernel, rows(x), given(weight, x), *outputs, after=(eps,))
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
    grid, block = count * (columns > 0), threads_for(columns)
    outputs = given(weight, x), r, output(rows(grad_x))
    launch(rms_norm_backward_kernel, grid, *operands, *outputs, count, columns, block=block)
    if parameters:
        shares, rows_a_part = share_rows(count, columns)
        parts = rstd.new_empty((1, shares, columns))
        extent = count, rows_a_part, columns
        launch_columns(rms_norm_weight_gradient_kernel, columns, shares, *operands, r, output(parts), *extent)
        sum_parts(parts, grad_weight)
    return grad_x, grad_weight
