"""layer_norm: the reference, and the prototype of cuda_src/layer_norm.cuh."""

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


def reference(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


@cuda.jit
def layer_norm_kernel(x, weight, bias, y, mean, rstd, columns, eps):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, float64)
    row = cuda.blockIdx.x
    total = 0.0
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        total += x[row, i]
    m = block_sum(total, of_warp) / columns
    total = 0.0
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        difference = x[row, i] - m
        total += difference * difference
    r = 1 / math.sqrt(block_sum(total, of_warp) / columns + eps)
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
def layer_norm_backward_kernel(grad, x, weight, mean, rstd, grad_x, columns):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, float64)
    row = cuda.blockIdx.x
    m = mean[row]
    r = rstd[row]
    sum_g = 0.0
    sum_gx = 0.0
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        g = grad[row, i] * (weight[i] if weight.size > 0 else 1)
        sum_g += g
        sum_gx += g * ((x[row, i] - m) * r)
    mean_g = block_sum(sum_g, of_warp) / columns
    mean_gx = block_sum(sum_gx, of_warp) / columns
    for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        g = grad[row, i] * (weight[i] if weight.size > 0 else 1)
        grad_x[row, i] = r * (g - mean_g - (x[row, i] - m) * r * mean_gx)


@cuda.jit
def layer_norm_weight_gradient_kernel(grad, x, mean, rstd, parts, rows, rows_a_part, columns):
    of_thread = cuda.shared.array((COLUMN_THREADS, COLUMN_BLOCK), float64)
    part = cuda.blockIdx.y
    column = cuda.blockIdx.x * COLUMN_BLOCK + cuda.threadIdx.x
    of_weight = 0.0
    of_bias = 0.0
    if column < columns:
        end = min((part + 1) * rows_a_part, rows)
        for row in range(part * rows_a_part + cuda.threadIdx.y, end, COLUMN_THREADS):
            g = grad[row, column]
            of_weight += g * ((x[row, column] - mean[row]) * rstd[row])
            of_bias += g
    of_weight = column_sum(of_weight, of_thread)
    of_bias = column_sum(of_bias, of_thread)
    if cuda.threadIdx.y == 0 and column < columns:
        parts[0, part, column] = of_weight
        parts[1, part, column] = of_bias


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    check_rows("layer_norm", x=x)
    check_of_columns("layer_norm", x, weight=weight, bias=bias)
    y, statistics = row_output(x), row_statistics(x, 2)
    count, columns = rows(x).shape
    outputs = output(rows(y)), output(statistics[0]), output(statistics[1])
    numbers = given(weight, x), given(bias, x)
    launch(layer_norm_kernel, count * (columns > 0), rows(x), *numbers, *outputs, columns, eps)
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
        columns,
    )
    if parameters:
        shares, rows_a_part = share_rows(count, columns)
        parts = statistics.new_empty((2, shares, columns))
        extent = count, rows_a_part, columns
        kernel = layer_norm_weight_gradient_kernel
        launch_columns(kernel, columns, shares, *operands, *moments, output(parts), *extent)
        sum_parts(parts, grad_weight, grad_bias)
    return grad_x, grad_weight, grad_bias
