"""layer_norm: the reference, and the prototype of cuda_src/layer_norm.cuh."""

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


def reference(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


@cuda.jit
def layer_norm_kernel(x, weight, bias, y, mean, rstd, rows, columns, eps):
    """One block per row, in three passes over it: the mean, the variance, the result."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    C = x.dtype.type
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        total = C(0)
        lost = C(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            total, lost = add_compensated(total, lost, x[row, i])
        m = block_sum(total - lost, of_warp) / C(columns)
        squares = C(0)
        lost = C(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            difference = x[row, i] - m
            squares, lost = add_compensated(squares, lost, difference * difference)
        r = C(1) / math.sqrt(block_sum(squares - lost, of_warp) / C(columns) + C(eps))
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            value = (x[row, i] - m) * r
            if weight.size > 0:
                value *= weight[i]
            if bias.size > 0:
                value += bias[i]
            y[row, i] = value
        if cuda.threadIdx.x == 0:
            mean[row] = m
            rstd[row] = r


@cuda.jit
def layer_norm_rows_kernel(x, weight, bias, y, mean, rstd, rows, columns, eps, team):
    """layer_norm_kernel with a row in a team's registers: it is read once."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    part = cuda.local.array(ELEMENTS_PER_THREAD, x.dtype)
    C = x.dtype.type
    row = cuda.grid(1) // team
    own = columns if row < rows else 0
    total = C(0)
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        part[k] = x[row, i] if i < own else C(0)
        total += part[k]
    m = team_sum(total, of_warp, team) / C(columns)
    squares = C(0)
    for k in range(ELEMENTS_PER_THREAD):
        if cuda.threadIdx.x % team + k * team < own:
            part[k] -= m
            squares += part[k] * part[k]
    r = C(1) / math.sqrt(team_sum(squares, of_warp, team) / C(columns) + C(eps))
    for k in range(ELEMENTS_PER_THREAD):
        i = cuda.threadIdx.x % team + k * team
        if i < own:
            value = part[k] * r
            if weight.size > 0:
                value *= weight[i]
            if bias.size > 0:
                value += bias[i]
            y[row, i] = value
    if row < rows and cuda.threadIdx.x % team == 0:
        mean[row] = m
        rstd[row] = r


@cuda.jit
def layer_norm_backward_kernel(grad, x, weight, mean, rstd, grad_x, rows, columns):
    """One block per row, in two passes over it: the sums of g and of g * x_hat, then the result."""
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    C = x.dtype.type
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        m = mean[row]
        r = rstd[row]
        sum_g = C(0)
        lost_g = C(0)
        sum_gx = C(0)
        lost_gx = C(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            g = grad[row, i] * (weight[i] if weight.size > 0 else C(1))
            sum_g, lost_g = add_compensated(sum_g, lost_g, g)
            sum_gx, lost_gx = add_compensated(sum_gx, lost_gx, g * ((x[row, i] - m) * r))
        mean_g = block_sum(sum_g - lost_g, of_warp) / C(columns)
        mean_gx = block_sum(sum_gx - lost_gx, of_warp) / C(columns)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            g = grad[row, i] * (weight[i] if weight.size > 0 else C(1))
            grad_x[row, i] = r * (g - mean_g - (x[row, i] - m) * r * mean_gx)


@cuda.jit
def layer_norm_weight_gradient_kernel(grad, x, mean, rstd, parts, rows, rows_a_part, columns):
    """The first step of the gradients of weight and bias: the sums over part of the rows."""
    of_thread = cuda.shared.array((COLUMN_THREADS, COLUMN_BLOCK), x.dtype)
    C = x.dtype.type
    part = cuda.blockIdx.y
    column = cuda.blockIdx.x * COLUMN_BLOCK + cuda.threadIdx.x
    of_weight = C(0)
    lost_of_weight = C(0)
    of_bias = C(0)
    lost_of_bias = C(0)
    if column < columns:
        begin = part * rows_a_part
        end = begin + rows_a_part if begin + rows_a_part < rows else rows
        for row in range(begin + cuda.threadIdx.y, end, COLUMN_THREADS):
            g = grad[row, column]
            x_hat = (x[row, column] - mean[row]) * rstd[row]
            of_weight, lost_of_weight = add_compensated(of_weight, lost_of_weight, g * x_hat)
            of_bias, lost_of_bias = add_compensated(of_bias, lost_of_bias, g)
    of_weight = column_sum(of_weight - lost_of_weight, of_thread)
    of_bias = column_sum(of_bias - lost_of_bias, of_thread)
    if cuda.threadIdx.y == 0 and column < columns:
        parts[0, part, column] = of_weight
        parts[1, part, column] = of_bias


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    check_rows("layer_norm", x=x)
    check_of_columns("layer_norm", x, weight=weight, bias=bias)
    y, statistics = row_output(x), row_statistics(x, 2)
    outputs = output(rows(y)), output(statistics[0]), output(statistics[1])
    numbers = given(weight, x), given(bias, x)
    launch_rows(layer_norm_kernel, layer_norm_rows_kernel, rows(x), *numbers, *outputs, after=(eps,))
    return y, statistics


def layer_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, parameters: bool
) -> tuple[Tensor, Tensor, Tensor]:
    check_rows("layer_norm_backward", x=x)
    check_alike("layer_norm_backward", x=x, grad=grad)
    check_of_columns("layer_norm_backward", x, weight=weight)
    grad_x, grad_weight, grad_bias = row_output(x), of_columns(x, parameters), of_columns(x, parameters)
    count, columns = rows(x).shape
    operands, moments = (rows(grad), rows(x)), (statistics[0], statistics[1])
    launch(
        layer_norm_backward_kernel,
        count * (columns > 0),
        *operands,
        given(weight, x),
        *moments,
        output(rows(grad_x)),
        count,
        columns,
        block=threads_for(columns),
    )
    if parameters:
        shares, rows_a_part = share_rows(count, columns)
        parts = statistics.new_empty((2, shares, columns))
        extent = count, rows_a_part, columns
        kernel = layer_norm_weight_gradient_kernel
        launch_columns(kernel, columns, shares, *operands, *moments, output(parts), *extent)
        sum_parts(parts, grad_weight, grad_bias)
    return grad_x, grad_weight, grad_bias
