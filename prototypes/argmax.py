"""argmax: the reference, and the prototype of cuda_src/argmax.cuh."""

import math

import torch
from numba import cuda, int64
from torch import Tensor

from trifold.prototype import THREADS_PER_BLOCK, check_floating, launch, output, rows

# ------------------------------------------------------------------------------------------------- reference


def reference(x: Tensor) -> tuple[Tensor, Tensor]:
    values, indices = torch.max(x, -1)
    return values, indices


# ------------------------------------------------------------------------------------------------- prototype

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32
BLOCKS_WANTED = 4 * 8 * 132  # four times as many blocks as an H200 runs at once
LEAST_VECTORS = 2048  # 16-byte vectors per slice


@cuda.jit(device=True)
def is_larger(a, b):
    return b == b and not (a <= b)  # also true if a is nan


@cuda.jit(device=True)
def comes_before(value_a, column_a, value_b, column_b):
    return is_larger(value_a, value_b) or (not is_larger(value_b, value_a) and column_a < column_b)


@cuda.jit(device=True)
def slice_length(columns, share):
    """Slice blockIdx.y of a row that is cut into gridDim.y slices; the last one also has the remainder."""
    return columns - cuda.blockIdx.y * share if cuda.blockIdx.y + 1 == cuda.gridDim.y else share


@cuda.jit(device=True)
def best_of_team(value, column, value_of_warp, column_of_warp, team):
    distance = min(team, 32) // 2
    while distance > 0:
        other_value = cuda.shfl_xor_sync(0xFFFFFFFF, value, distance)
        other_column = cuda.shfl_xor_sync(0xFFFFFFFF, column, distance)
        if comes_before(other_value, other_column, value, column):
            value = other_value
            column = other_column
        distance //= 2
    if team > 32:
        if cuda.threadIdx.x % 32 == 0:
            value_of_warp[cuda.threadIdx.x // 32] = value
            column_of_warp[cuda.threadIdx.x // 32] = column
        cuda.syncthreads()
        for warp in range(cuda.blockDim.x // 32):
            if comes_before(value_of_warp[warp], column_of_warp[warp], value, column):
                value = value_of_warp[warp]
                column = column_of_warp[warp]
    return value, column


@cuda.jit
def argmax_kernel(x, columns_of, values, indices, rows, columns, share, team):
    value_of_warp = cuda.shared.array(WARPS_PER_BLOCK, x.dtype)
    column_of_warp = cuda.shared.array(WARPS_PER_BLOCK, int64)
    row = cuda.grid(1) // team
    lane = cuda.threadIdx.x % team
    begin = cuda.blockIdx.y * share
    value = x.dtype.type(-math.inf)  # if no number is larger than -inf, the result is the first column
    column = int64(0)
    if row < rows:
        for i in range(lane, slice_length(columns, share), team):
            if is_larger(x[row, begin + i], value):
                value = x[row, begin + i]
                column = i
    value, column = best_of_team(value, column, value_of_warp, column_of_warp, team)
    if row < rows and lane == 0:
        at = row * cuda.gridDim.y + cuda.blockIdx.y
        values[at] = value
        indices[at] = columns_of[row, begin + column] if columns_of.size > 0 else begin + column


@cuda.jit
def argmax_backward_kernel(grad_values, indices, grad_x, rows, columns, share, team):
    row = cuda.grid(1) // team
    lane = cuda.threadIdx.x % team
    begin = cuda.blockIdx.y * share
    if row >= rows:
        return
    own = indices[row] - begin
    for i in range(lane, slice_length(columns, share), team):
        grad_x[row, begin + i] = grad_values[row] if i == own else 0


def argmax(x: Tensor) -> tuple[Tensor, Tensor]:
    check_floating("argmax", x=x)
    _check(
        x.dim() == 0 or x.shape[-1] > 0,
        f"argmax: x must have a column, but is of shape {tuple(x.shape)}",
        "pass one column or more",
    )
    values, indices = x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1], dtype=torch.int64)
    matrix = rows(x)
    count, columns = matrix.shape
    if count == 0:
        return values, indices
    slices = _slices_of(x, count, columns)
    results, own = (values.reshape(-1), indices.reshape(-1)), indices.new_empty((0, 0))
    if slices == 1:
        _launch_slices(matrix, own, *results, 1)
    else:
        parts, columns_of = x.new_empty((count, slices)), indices.new_empty((count, slices))
        _launch_slices(matrix, own, parts.view(-1), columns_of.view(-1), slices)
        _launch_slices(parts, columns_of, *results, 1)
    return values, indices


def argmax_backward(grad_values: Tensor, indices: Tensor, columns: int) -> Tensor:
    check_floating("argmax_backward", grad_values=grad_values)
    right = indices.dtype == torch.int64 and indices.shape == grad_values.shape
    _check(right, "argmax_backward: indices must be int64, of the shape of grad_values", "pass argmax's second result")
    _check(columns > 0, f"argmax_backward: columns must be positive, but is {columns}", "pass that number of x")
    grad_x = grad_values.new_empty((*grad_values.shape, columns))
    count = grad_values.numel()
    if count == 0:
        return grad_x
    slices = _slices_of(grad_x, count, columns)
    share = columns // slices
    team = _team_for(grad_x, share)
    launch(
        argmax_backward_kernel,
        _grid_of_teams(count, slices, team),
        *(grad_values.reshape(-1), indices.reshape(-1), output(rows(grad_x)), count, columns, share, team),
    )
    return grad_x


def _launch_slices(x: Tensor, columns_of: Tensor, values: Tensor, indices: Tensor, slices: int) -> None:
    """Write one result per slice of each row."""
    count, columns = x.shape
    share = columns // slices
    team = _team_for(x, share)
    launch(
        argmax_kernel,
        _grid_of_teams(count, slices, team),
        *(x, columns_of, output(values), output(indices), count, columns, share, team),
    )


def _team_for(x: Tensor, columns: int) -> int:
    """The number of threads for a slice of this many columns."""
    vectors = columns // (16 // x.element_size())
    return 4 if vectors <= 16 else 32 if vectors <= 512 else THREADS_PER_BLOCK


def _slices_of(x: Tensor, count: int, columns: int) -> int:
    """The number of slices per row."""
    least = LEAST_VECTORS * (16 // x.element_size())
    wanted = min(-(-BLOCKS_WANTED // count), columns // least)
    return max(wanted, -(-columns // 2**30), 1)


def _grid_of_teams(count: int, slices: int, team: int) -> tuple[int, int]:
    return -(-count // (THREADS_PER_BLOCK // team)), slices


def _check(condition: bool, problem: str, remedy: str) -> None:
    if not condition:
        raise RuntimeError(f"{problem}; {remedy}")
