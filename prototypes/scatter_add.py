"""scatter_add: the reference, and the prototype of cuda_src/scatter_add.cuh."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import check_floating, launch, launch_elementwise, output, row_output

# ------------------------------------------------------------------------------------------------- reference


def reference(source: Tensor, index: Tensor, size: int) -> Tensor:
    """torch's index_add_ into zeros, half types in float32. Rows out of range go to an extra row, which is dropped."""
    wide = source if source.dtype in (torch.float64, torch.float32) else source.float()
    sums = wide.new_zeros(size + 1, source.shape[1])
    known = (index >= 0) & (index < size)
    return sums.index_add(0, torch.where(known, index, size), wide)[:size].to(source.dtype)


# ------------------------------------------------------------------------------------------------- prototype

BLOCK = 256
MOST_LANES = 32
ROWS_A_THREAD = 4
MOST_BLOCKS_DOWN = 65535
NUMBERS_A_THREAD = 4


@cuda.jit
def scatter_add_zero_kernel(sums, n):
    i = cuda.grid(1)
    if i < n:
        sums[i] = 0


@cuda.jit
def scatter_add_kernel(source, index, sums, rows, columns, size):
    column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    apart = cuda.blockDim.y
    step = cuda.gridDim.y * apart * ROWS_A_THREAD
    if column >= columns:
        return
    for first in range(cuda.blockIdx.y * apart * ROWS_A_THREAD + cuda.threadIdx.y, rows, step):
        for k in range(ROWS_A_THREAD):
            row = first + k * apart
            if row < rows:
                place = index[row]
                if place >= 0 and place < size:
                    cuda.atomic.add(sums, (place, column), source[row, column])


@cuda.jit
def scatter_add_round_kernel(sums, out, n):
    first = cuda.grid(1) * NUMBERS_A_THREAD
    for i in range(first, min(first + NUMBERS_A_THREAD, n)):
        out[i] = sums[i]


@cuda.jit
def scatter_add_backward_kernel(grad, index, grad_source, rows, columns, size):
    column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    apart = cuda.blockDim.y
    step = cuda.gridDim.y * apart * ROWS_A_THREAD
    if column >= columns:
        return
    for first in range(cuda.blockIdx.y * apart * ROWS_A_THREAD + cuda.threadIdx.y, rows, step):
        for k in range(ROWS_A_THREAD):
            row = first + k * apart
            if row < rows:
                place = index[row]
                grad_source[row, column] = grad[place, column] if place >= 0 and place < size else 0


def scatter_add(source: Tensor, index: Tensor, size: int) -> Tensor:
    check_floating("scatter_add", source=source)
    _check_matrix("scatter_add", "source", source)
    _check_index("scatter_add", "source", source, index)
    rows, columns = source.shape
    _check(
        index.shape[0] == rows,
        f"scatter_add: index must have one number for each row of source, but source is {tuple(source.shape)} and "
        f"index is {tuple(index.shape)}",
        "pass the row of the result that each row of source is added to",
    )
    _check(size >= 0, f"scatter_add: size must not be negative, but is {size}", "pass 0 or more")
    out = source.new_empty(size, columns)
    wide = torch.float64 if source.dtype == torch.float64 else torch.float32
    sums = out if source.dtype == wide else out.new_empty(out.shape, dtype=wide)
    n = out.numel()
    launch_elementwise(scatter_add_zero_kernel, n, output(sums.view(-1)), n)
    if n > 0:
        grid, block = _tiles(rows, columns)
        launch(scatter_add_kernel, grid, source, index, output(sums), rows, columns, size, block=block)
    if sums is not out:
        threads = -(-n // NUMBERS_A_THREAD)
        launch_elementwise(scatter_add_round_kernel, threads, sums.view(-1), output(out.view(-1)), n)
    return out


def scatter_add_backward(grad: Tensor, index: Tensor) -> Tensor:
    check_floating("scatter_add_backward", grad=grad)
    _check_matrix("scatter_add_backward", "grad", grad)
    _check_index("scatter_add_backward", "grad", grad, index)
    rows, (size, columns) = index.shape[0], grad.shape
    grad_source = row_output(grad.new_empty(rows, columns))
    grid, block = _tiles(rows, columns)
    launch(scatter_add_backward_kernel, grid, grad, index, output(grad_source), rows, columns, size, block=block)
    return grad_source


def _tiles(rows: int, columns: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Grid and block in which each thread has a column, and ROWS_A_THREAD rows at a time."""
    lanes = min(1 << max(columns - 1, 0).bit_length(), MOST_LANES)
    apart = BLOCK // lanes
    down = min(-(-rows // (apart * ROWS_A_THREAD)), MOST_BLOCKS_DOWN)
    return (-(-columns // lanes), down), (lanes, apart)


def _check_matrix(op: str, name: str, x: Tensor) -> None:
    _check(
        x.dim() == 2,
        f"{op}: {name} must have two dimensions, not the shape {tuple(x.shape)}",
        f"flatten what is in a row with {name}.flatten(1)",
    )


def _check_index(op: str, name: str, x: Tensor, index: Tensor) -> None:
    _check(
        index.device == x.device,
        f"{op}: {name} and index must be on the same device, but {name} is on {x.device} and index is on "
        f"{index.device}",
        f"move one with index.to({name}.device)",
    )
    _check(index.dtype == torch.int64, f"{op}: index must be int64, not {index.dtype}", "convert it with index.long()")
    _check(
        index.dim() == 1,
        f"{op}: index must have one dimension, not the shape {tuple(index.shape)}",
        "flatten it with index.reshape(-1)",
    )


def _check(condition: bool, problem: str, remedy: str) -> None:
    if not condition:
        raise RuntimeError(f"{problem}; {remedy}")
