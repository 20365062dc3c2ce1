"""embedding: the reference, and the prototype of cuda_src/embedding.cuh."""

import math

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import THREADS_PER_BLOCK, check_floating, launch, launch_elementwise, output, rows

# ------------------------------------------------------------------------------------------------- reference


def reference(indices: Tensor, weight: Tensor, deterministic: bool = False) -> Tensor:
    # An index out of range reads an extra row of nan, whose gradient is dropped.
    vocabulary, columns = weight.shape
    known = (indices >= 0) & (indices < vocabulary)
    extended = torch.cat([weight, weight.new_full((1, columns), math.nan)])
    # Not F.embedding: on a GPU its backward reads a null pointer if there is no column (pytorch/pytorch#189668).
    return extended[torch.where(known, indices, vocabulary).contiguous()]


# ------------------------------------------------------------------------------------------------- prototype

LOADS = 4  # loads in flight per thread
MOST_TILES = 65_535  # limit of gridDim.y
MANY_POSITIONS = 32  # per row on average: from here on, a block sums a row of grad_weight


@cuda.jit(device=True)
def is_row(index, vocabulary):
    return index >= 0 and index < vocabulary


@cuda.jit(device=True)
def row_of_thread():
    return cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y


@cuda.jit
def embedding_kernel(indices, weight, out, positions, vocabulary, columns):
    position = row_of_thread()
    if position >= positions:
        return
    index = indices[position]
    known = is_row(index, vocabulary)
    width = cuda.blockDim.x
    tile = LOADS * width
    for first in range(cuda.blockIdx.y * tile + cuda.threadIdx.x, columns, cuda.gridDim.y * tile):
        for k in range(LOADS):
            column = first + k * width
            if column < columns:
                out[position, column] = weight[index, column] if known else math.nan


@cuda.jit
def embedding_zero_kernel(sums, n):
    i = cuda.grid(1)
    if i < n:
        sums[i] = 0


@cuda.jit
def embedding_add_kernel(grad, indices, sums, positions, vocabulary, columns):
    position = row_of_thread()
    if position >= positions:
        return
    index = indices[position]
    if not is_row(index, vocabulary):
        return
    width = cuda.blockDim.x
    for column in range(cuda.blockIdx.y * width + cuda.threadIdx.x, columns, cuda.gridDim.y * width):
        cuda.atomic.add(sums, index * columns + column, grad[position, column])


@cuda.jit
def embedding_round_kernel(sums, grad_weight, n):
    i = cuda.grid(1)
    if i < n:
        grad_weight[i] = sums[i]


@cuda.jit
def embedding_starts_kernel(indices, order, starts, positions, vocabulary):
    v = cuda.grid(1)
    if v > vocabulary:
        return
    low = 0
    high = positions
    while low < high:
        middle = (low + high) // 2
        if indices[order[middle]] < v:
            low = middle + 1
        else:
            high = middle
    starts[v] = low


@cuda.jit(device=True)
def add_rows(grad, column, order, begin, end, step):
    total = grad.dtype.type(0)
    for i in range(begin, end, step):
        total += grad[order[i], column]
    return total


@cuda.jit
def embedding_sum_kernel(grad, order, starts, grad_weight, vocabulary, columns):
    v = row_of_thread()
    if v >= vocabulary:
        return
    width = cuda.blockDim.x
    for column in range(cuda.blockIdx.y * width + cuda.threadIdx.x, columns, cuda.gridDim.y * width):
        grad_weight[v, column] = add_rows(grad, column, order, starts[v], starts[v + 1], 1)


@cuda.jit
def embedding_long_sum_kernel(grad, order, starts, grad_weight, vocabulary, columns):
    of_thread = cuda.shared.array(THREADS_PER_BLOCK, grad.dtype)
    v = cuda.blockIdx.x
    thread = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    width = cuda.blockDim.x
    for tile in range(cuda.blockIdx.y * width, columns, cuda.gridDim.y * width):
        column = tile + cuda.threadIdx.x
        total = grad.dtype.type(0)
        if column < columns:
            total = add_rows(grad, column, order, starts[v] + cuda.threadIdx.y, starts[v + 1], cuda.blockDim.y)
        of_thread[thread] = total
        cuda.syncthreads()
        if cuda.threadIdx.y == 0 and column < columns:
            for other in range(thread + cuda.blockDim.x, THREADS_PER_BLOCK, cuda.blockDim.x):
                total += of_thread[other]
            grad_weight[v, column] = total
        cuda.syncthreads()


def embedding(indices: Tensor, weight: Tensor, deterministic: bool) -> Tensor:
    check_floating("embedding", weight=weight)
    _check_indices("embedding", indices, weight=weight)
    _check(
        weight.dim() == 2,
        f"embedding: weight must have two dimensions, (vocabulary, D), not the shape {tuple(weight.shape)}",
        "reshape it with weight.reshape(-1, D)",
    )
    positions, (vocabulary, columns) = indices.numel(), weight.shape
    out = weight.new_empty((*indices.shape, columns))
    if out.numel() > 0:
        grid, block = _row_launch(positions, columns, LOADS)
        arguments = indices.reshape(-1), weight, output(out.view(positions, columns))
        launch(embedding_kernel, grid, *arguments, positions, vocabulary, columns, block=block)
    return out


def embedding_backward(grad: Tensor, indices: Tensor, order: Tensor | None, vocabulary: int) -> Tensor:
    _check_grad("embedding_backward", grad, indices, order, vocabulary)
    grad_weight = grad.new_empty((vocabulary, grad.shape[-1]))
    if grad_weight.numel() == 0:
        return grad_weight
    if order is None:
        _add_by_atomics(grad, indices, grad_weight)
    else:
        _add_in_order(grad, indices, order, grad_weight)
    return grad_weight


def _add_by_atomics(grad: Tensor, indices: Tensor, grad_weight: Tensor) -> None:
    positions, (vocabulary, columns), elements = indices.numel(), grad_weight.shape, grad_weight.numel()
    rounds = grad.dtype.itemsize == 2
    sums = (grad.new_empty(elements, dtype=torch.float32) if rounds else grad_weight).view(-1)
    launch_elementwise(embedding_zero_kernel, elements, output(sums), elements)
    if positions > 0:
        grid, block = _row_launch(positions, columns, 1)
        arguments = rows(grad), indices.reshape(-1), output(sums)
        launch(embedding_add_kernel, grid, *arguments, positions, vocabulary, columns, block=block)
    if rounds:
        launch_elementwise(embedding_round_kernel, elements, sums, output(grad_weight.view(-1)), elements)


def _add_in_order(grad: Tensor, indices: Tensor, order: Tensor, grad_weight: Tensor) -> None:
    positions, (vocabulary, columns) = indices.numel(), grad_weight.shape
    starts = indices.new_empty(vocabulary + 1)
    arguments = indices.reshape(-1), order.reshape(-1), output(starts)
    launch_elementwise(embedding_starts_kernel, vocabulary + 1, *arguments, positions, vocabulary)
    block_a_row = positions // vocabulary >= MANY_POSITIONS
    grid, block = _row_launch(vocabulary, columns, 1, block_a_row)
    kernel = embedding_long_sum_kernel if block_a_row else embedding_sum_kernel
    launch(
        kernel,
        grid,
        *(rows(grad), order.reshape(-1), starts, output(grad_weight), vocabulary, columns),
        block=block,
    )


def _row_launch(
    count: int, columns: int, loads: int, block_a_row: bool = False
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Grid and block in which ``lanes`` threads share a row and each loads ``loads`` elements at a time; a block has as
    many rows as its threads allow."""
    lanes = 1 << (min(columns, 32) - 1).bit_length()
    height, tiles = THREADS_PER_BLOCK // lanes, -(-columns // (lanes * loads))
    blocks = count if block_a_row else -(-count // height)
    return (blocks, min(tiles, MOST_TILES)), (lanes, height)


def _check_grad(op: str, grad: Tensor, indices: Tensor, order: Tensor | None, vocabulary: int) -> None:
    check_floating(op, grad=grad)
    _check_indices(op, indices, grad=grad)
    _check(
        grad.dim() > 0 and grad.shape[:-1] == indices.shape,
        f"{op}: grad must have the shape of indices and a last dimension, but grad is {tuple(grad.shape)} and indices "
        f"is {tuple(indices.shape)}",
        "it is the gradient of embedding's result",
    )
    _check(
        vocabulary >= 0,
        f"{op}: vocabulary must not be negative, but is {vocabulary}",
        "it is the number of rows of embedding's weight",
    )
    if order is not None:
        _check_device(op, "order", order, grad=grad)
        _check(
            order.dtype == torch.int64 and order.numel() == indices.numel(),
            f"{op}: order must be int64, with an element for each of indices, not {_dtype_name(order)} of shape "
            f"{tuple(order.shape)}",
            "it is indices.flatten().argsort(stable=True)",
        )


def _check_indices(op: str, indices: Tensor, **of: Tensor) -> None:
    _check_device(op, "indices", indices, **of)
    _check(
        indices.dtype == torch.int64,
        f"{op}: indices must be int64, not {_dtype_name(indices)}",
        "convert it with indices.long()",
    )


def _check_device(op: str, argument: str, tensor: Tensor, **of: Tensor) -> None:
    ((name, x),) = of.items()
    _check(
        tensor.device == x.device,
        f"{op}: {name} and {argument} must be on the same device, but {name} is on {x.device} and {argument} is on "
        f"{tensor.device}",
        f"move one with {argument}.to({name}.device)",
    )


def _check(condition: bool, problem: str, remedy: str) -> None:
    if not condition:
        raise RuntimeError(f"{problem}; {remedy}")


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
