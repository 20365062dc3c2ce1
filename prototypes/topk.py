"""topk: the reference, and the prototype of cuda_src/topk.cuh."""

import math

import torch
from numba import cuda, int32, int64
from torch import Tensor

from trifold.prototype import THREADS_PER_BLOCK, check_floating, launch, output, rows

# ------------------------------------------------------------------------------------------------- reference


def reference(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """torch.topk, except that equal numbers are ordered by index, also in backward."""
    matrix = x if x.dim() else x.reshape(1)
    # On a GPU torch.sort puts a nan with a set sign bit last: all nan are made equal here.
    numbers = torch.where(matrix.isnan(), math.nan, matrix.detach())
    indices = torch.sort(numbers, dim=-1, descending=True, stable=True).indices[..., :k]
    shape = (*x.shape[:-1], k) if x.dim() else ()
    return matrix.gather(-1, indices).reshape(shape), indices.reshape(shape).contiguous()


# ------------------------------------------------------------------------------------------------- prototype

MOST = 64
ELEMENTS = 4  # elements per thread and tile; vectors in C++
FEW_THREADS = 64
FEWEST_THREADS = 32  # of a warp, which sorts without barriers
CAPACITY = 2 * THREADS_PER_BLOCK
NO_COLUMN = 2**31 - 1  # with -inf: ordered after every number of a row

BLOCKS_WANTED = 4 * 132  # wanted in all slices; there may be so many that their candidates fill several tiles
LEAST_VECTORS = 4096  # 16-byte vectors per slice: four tiles of 256 threads

BACKWARD_BLOCKS_WANTED = 4 * 8 * 132  # four times as many blocks as an H200 runs at once
BACKWARD_LEAST_VECTORS = 2048


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
def sort(values, columns, count):
    """Sort the first ``count`` candidates in shared memory, a power of two; all threads of the block call it."""
    cuda.syncthreads()
    distance_before = 0
    size = 2
    while size <= count:
        distance = size // 2
        while distance > 0:
            if max(distance, distance_before) > 32:
                cuda.syncthreads()
            else:
                cuda.syncwarp()
            for pair in range(cuda.threadIdx.x, count // 2, cuda.blockDim.x):
                i = 2 * pair - (pair & (distance - 1))
                j = i + distance
                if (i & size) == 0:
                    swaps = comes_before(values[j], columns[j], values[i], columns[i])
                else:
                    swaps = comes_before(values[i], columns[i], values[j], columns[j])
                if swaps:
                    value = values[i]
                    column = columns[i]
                    values[i] = values[j]
                    columns[i] = columns[j]
                    values[j] = value
                    columns[j] = column
            distance_before = distance
            distance //= 2
        size *= 2
    cuda.syncthreads()


@cuda.jit(device=True)
def sort_kept(values, columns, next_free, count, k):
    """Sort the ``count`` candidates, keep the k best, and return how many are left."""
    sorted_count = 1
    while sorted_count < max(count, k):
        sorted_count *= 2
    for i in range(count + cuda.threadIdx.x, sorted_count, cuda.blockDim.x):
        values[i] = -math.inf
        columns[i] = NO_COLUMN
    sort(values, columns, sorted_count)
    if cuda.threadIdx.x == 0:
        next_free[0] = min(count, k)
    return min(count, k)


@cuda.jit
def topk_kernel(x, columns_of, values, indices, rows, columns, share, k, capacity):
    kept_values = cuda.shared.array(CAPACITY, x.dtype)
    kept_columns = cuda.shared.array(CAPACITY, int64)
    best_values = cuda.shared.array(THREADS_PER_BLOCK, x.dtype)
    best_columns = cuda.shared.array(THREADS_PER_BLOCK, int64)
    next_free = cuda.shared.array(1, int64)
    C = x.dtype.type
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    crowd = max(k, threads // 4)
    begin = cuda.blockIdx.y * share
    length = slice_length(columns, share)
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        threshold_value = C(-math.inf)
        threshold_column = int64(NO_COLUMN)
        kept = 0
        if thread == 0:
            next_free[0] = 0
        for first in range(0, length, ELEMENTS * threads):
            element = 0  # each thread's next wanted element
            while True:
                value = C(-math.inf)
                column = first + element * threads + thread
                while element < ELEMENTS and column < length:
                    value = x[row, begin + column]
                    if not comes_before(threshold_value, threshold_column, value, column):
                        break
                    element += 1
                    column += threads
                wanted = element < ELEMENTS and column < length
                count = cuda.syncthreads_count(int32(wanted))
                if count == 0:
                    break
                raised_value = C(-math.inf)
                raised_column = int64(NO_COLUMN)
                if count > crowd:
                    best_value = C(-math.inf)
                    best_column = int64(NO_COLUMN)
                    for i in range(first + thread, min(length, first + ELEMENTS * threads), threads):
                        if comes_before(x[row, begin + i], i, best_value, best_column):
                            best_value = x[row, begin + i]
                            best_column = i
                    best_values[thread] = best_value
                    best_columns[thread] = best_column
                    sort(best_values, best_columns, threads)
                    raised_value = best_values[k - 1]
                    raised_column = best_columns[k - 1]
                elif kept + count > capacity:
                    kept = sort_kept(kept_values, kept_columns, next_free, kept, k)
                    raised_value = kept_values[k - 1]
                    raised_column = kept_columns[k - 1]
                else:
                    if wanted:
                        place = cuda.atomic.add(next_free, 0, 1)
                        kept_values[place] = value
                        kept_columns[place] = column
                    element += 1
                    kept += count
                if comes_before(raised_value, raised_column, threshold_value, threshold_column):
                    threshold_value = raised_value
                    threshold_column = raised_column
        sort_kept(kept_values, kept_columns, next_free, kept, k)
        if thread < k:
            at = (row * cuda.gridDim.y + cuda.blockIdx.y) * k + thread
            column = begin + kept_columns[thread]
            values[at] = kept_values[thread]
            indices[at] = columns_of[row, column] if columns_of.size > 0 else column
        cuda.syncthreads()


@cuda.jit
def topk_backward_kernel(grad_values, indices, grad_x, rows, columns, share, k, team):
    row = cuda.grid(1) // team
    lane = cuda.threadIdx.x % team
    begin = cuda.blockIdx.y * share
    length = slice_length(columns, share)
    if row < rows:
        for i in range(lane, length, team):
            grad_x[row, begin + i] = 0
    if team > 32:
        cuda.syncthreads()
    else:
        cuda.syncwarp()
    if row < rows:
        for j in range(lane, k, team):
            column = indices[row, j] - begin
            if column >= 0 and column < length:
                grad_x[row, begin + column] = grad_values[row, j]


def topk(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    check_floating("topk", x=x)
    _check(
        1 <= k <= MOST,
        f"topk: k must be from 1 to {MOST}, but is {k}",
        "of more numbers, sort all with torch.sort(x, descending=True)",
    )
    matrix = rows(x)
    count, columns = matrix.shape
    _check(
        k <= columns,
        f"topk: k must not exceed the last dimension of x, but is {k}, and x is of shape {tuple(x.shape)}",
        "pass a smaller k",
    )
    shape = _with_columns(x, k)
    values, indices = x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)
    if count == 0:
        return values, indices
    slices = _slices_of(x, count, columns, LEAST_VECTORS, BLOCKS_WANTED)
    results, own = (values.reshape(-1), indices.reshape(-1)), indices.new_empty((0, 0))
    if slices == 1:
        _launch_slices(matrix, own, *results, 1, k)
    else:
        parts, columns_of = x.new_empty((count, slices * k)), indices.new_empty((count, slices * k))
        _launch_slices(matrix, own, parts.view(-1), columns_of.view(-1), slices, k)
        _launch_slices(parts, columns_of, *results, 1, k)
    return values, indices


def topk_backward(grad_values: Tensor, indices: Tensor, columns: int) -> Tensor:
    check_floating("topk_backward", grad_values=grad_values)
    right = indices.dtype == torch.int64 and indices.shape == grad_values.shape
    _check(right, "topk_backward: indices must be int64, of the shape of grad_values", "pass topk's second result")
    grad = rows(grad_values)
    count, k = grad.shape
    _check(columns >= k, f"topk_backward: columns must not be less than k, but is {columns}", "pass that number of x")
    grad_x = grad_values.new_empty(_with_columns(grad_values, columns))
    if grad.numel() == 0:
        return grad_x
    slices = _slices_of(grad_x, count, columns, BACKWARD_LEAST_VECTORS, BACKWARD_BLOCKS_WANTED)
    share = columns // slices
    team = _team_for(grad_x, share)
    launch(
        topk_backward_kernel,
        (-(-count // (THREADS_PER_BLOCK // team)), slices),
        *(grad, rows(indices), output(rows(grad_x)), count, columns, share, k, team),
    )
    return grad_x


def _launch_slices(x: Tensor, columns_of: Tensor, values: Tensor, indices: Tensor, slices: int, k: int) -> None:
    """Write k results per slice of each row. Fewer threads process a row that fits in one of their tiles."""
    count, columns = x.shape
    share = columns // slices
    tile = FEW_THREADS * ELEMENTS * (16 // x.element_size())
    if share <= 4 * FEWEST_THREADS and k <= FEWEST_THREADS:
        threads, capacity = FEWEST_THREADS, 4 * FEWEST_THREADS
    elif share <= 4 * FEW_THREADS or (k <= FEW_THREADS // 2 and share <= tile):
        threads, capacity = FEW_THREADS, 4 * FEW_THREADS
    else:
        threads, capacity = THREADS_PER_BLOCK, CAPACITY
    launch(
        topk_kernel,
        (count, slices),
        *(x, columns_of, output(values), output(indices), count, columns, share, k, capacity),
        block=threads,
    )


def _team_for(x: Tensor, columns: int) -> int:
    """The number of threads for a slice of this many columns, in backward."""
    vectors = columns // (16 // x.element_size())
    return 4 if vectors <= 16 else 32 if vectors <= 512 else THREADS_PER_BLOCK


def _slices_of(x: Tensor, count: int, columns: int, least_vectors: int, blocks: int) -> int:
    """The number of slices per row."""
    wanted = min(-(-blocks // count), columns // (least_vectors * (16 // x.element_size())))
    return max(wanted, -(-columns // 2**30), 1)


def _with_columns(x: Tensor, columns: int) -> tuple[int, ...]:
    """The shape of ``x`` with the last dimension replaced; a 0-d shape, a row of one column, stays."""
    return (*x.shape[:-1], columns) if x.dim() else ()


def _check(condition: bool, problem: str, remedy: str) -> None:
    if not condition:
        raise RuntimeError(f"{problem}; {remedy}")
