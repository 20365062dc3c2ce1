"""quantize_int8: the reference, and the prototype of cuda_src/quantize_int8.cuh."""

import numpy as np
import torch
from numba import cuda
from torch import Tensor

from trifold.device import block_max, larger
from trifold.prototype import THREADS_PER_BLOCK, check_floating, launch, output, threads_for

# ------------------------------------------------------------------------------------------------- reference


def reference(x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x if x.dtype == torch.float64 else x.float()
    largest = wide.abs().amax(-1) if x.dim() == 0 or x.shape[-1] > 0 else wide.new_zeros(x.shape[:-1])
    scale = (largest / 127).float()
    scale = torch.where(scale == 0, 1.0, scale)
    q = (wide / scale[..., None] if x.dim() > 0 else wide / scale).round().clamp(-127, 127)
    finite = scale.isfinite()[..., None] if x.dim() > 0 else scale.isfinite()
    return torch.where(finite, q, 0.0).to(torch.int8).contiguous(), scale.contiguous()


# ------------------------------------------------------------------------------------------------- prototype

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32

# Longer rows are shared by blocks: the least share of one, and the most blocks in all.
LONG_ROW = 4096
STRETCH = 1024
MOST_PARTS = 8


@cuda.jit(device=True)
def scale_of(largest):
    scale = np.float32(largest / 127)
    return scale if scale != 0 else np.float32(1)


@cuda.jit(device=True)
def quantized(x, scale):
    if not abs(scale) < np.inf:
        return 0
    return round(min(max(x / scale, -127.0), 127.0))


@cuda.jit
def quantize_int8_kernel(x, q, scales, rows, columns):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        largest = x.dtype.type(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            largest = larger(largest, abs(x[row, i]))
        largest = block_max(largest, of_warp)
        scale = scale_of(largest)
        if cuda.threadIdx.x == 0:
            scales[row] = scale
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            q[row, i] = quantized(x[row, i], scale)


@cuda.jit
def quantize_int8_max_kernel(x, largest_of_part, columns, parts, stretch):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    row = cuda.blockIdx.x // parts
    first = cuda.blockIdx.x % parts * stretch
    last = min(first + stretch, columns)
    largest = x.dtype.type(0)
    for i in range(first + cuda.threadIdx.x, last, cuda.blockDim.x):
        largest = larger(largest, abs(x[row, i]))
    largest = block_max(largest, of_warp)
    if cuda.threadIdx.x == 0:
        largest_of_part[cuda.blockIdx.x] = largest


@cuda.jit
def quantize_int8_parts_kernel(x, largest_of_part, q, scales, columns, parts, stretch):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    row = cuda.blockIdx.x // parts
    first = cuda.blockIdx.x % parts * stretch
    last = min(first + stretch, columns)
    largest = x.dtype.type(0)
    for i in range(cuda.threadIdx.x, parts, cuda.blockDim.x):
        largest = larger(largest, largest_of_part[row * parts + i])
    largest = block_max(largest, of_warp)
    scale = scale_of(largest)
    if cuda.threadIdx.x == 0 and first == 0:
        scales[row] = scale
    for i in range(first + cuda.threadIdx.x, last, cuda.blockDim.x):
        q[row, i] = quantized(x[row, i], scale)


def quantize_int8(x: Tensor) -> tuple[Tensor, Tensor]:
    check_floating("quantize_int8", x=x)
    q = x.new_empty(x.shape, dtype=torch.int8)
    scale = x.new_empty(x.shape[:-1], dtype=torch.float32)
    columns = x.shape[-1] if x.dim() > 0 else 1
    count = scale.numel()
    matrix, of_q = x.reshape(count, columns), q.view(count, columns)
    if columns <= LONG_ROW:
        outputs, block = (output(of_q), output(scale.view(-1))), threads_for(columns)
        launch(quantize_int8_kernel, count, matrix, *outputs, count, columns, block=block)
        return q, scale
    parts = min(-(-columns // STRETCH), MOST_PARTS)
    stretch = -(-columns // parts)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    largest = x.new_empty(count * parts, dtype=wide)
    launch(quantize_int8_max_kernel, count * parts, matrix, output(largest), columns, parts, stretch)
    launch(
        quantize_int8_parts_kernel,
        count * parts,
        *(matrix, largest, output(of_q), output(scale.view(-1)), columns, parts, stretch),
    )
    return q, scale
