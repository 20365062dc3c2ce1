"""transpose: the reference, and the prototype of cuda_src/transpose.cuh."""

import math

import torch
from numba import cuda, int64
from torch import Tensor

from trifold.prototype import launch, output

# ------------------------------------------------------------------------------------------------- reference


def reference(x: Tensor) -> Tensor:
    return x.transpose(-1, -2).contiguous()


# ------------------------------------------------------------------------------------------------- prototype

TILE_EDGE = 32  # elements
TILE_HEIGHT = 8  # rows of a tile that a block reads at once, a warp per row
TILE_PITCH = TILE_EDGE + 1  # the elements of a column are in 32 different banks
MOST_BLOCKS = 2**31 - 1

# Only bits move: elements are viewed as integers of their size, and words of elements as int32. A tile holds int64,
# which all of them fit into.
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
MOST_PACK = 4


@cuda.jit
def transpose_kernel(x, y, rows, columns, tiles):
    staged = cuda.shared.array((TILE_EDGE, TILE_PITCH), int64)
    lane = cuda.threadIdx.x
    across = (columns + TILE_EDGE - 1) // TILE_EDGE
    down = (rows + TILE_EDGE - 1) // TILE_EDGE
    for index in range(cuda.blockIdx.x, tiles, cuda.gridDim.x):
        first_column = index % across * TILE_EDGE
        first_row = index // across % down * TILE_EDGE
        matrix = index // across // down
        for step in range(0, TILE_EDGE, TILE_HEIGHT):
            i = step + cuda.threadIdx.y
            row, column = first_row + i, first_column + lane
            if row < rows and column < columns:
                staged[i, lane] = x[matrix, row, column]
        cuda.syncthreads()
        for step in range(0, TILE_EDGE, TILE_HEIGHT):
            i = step + cuda.threadIdx.y
            row, column = first_row + lane, first_column + i
            if row < rows and column < columns:
                y[matrix, column, row] = staged[lane, i]
        cuda.syncthreads()  # the next tile is staged in the same memory


@cuda.jit
def transpose_words_kernel(x, y, rows, columns, tiles, pack):
    bits = 32 // pack
    mask = (1 << bits) - 1
    staged = cuda.shared.array((MOST_PACK, TILE_EDGE, TILE_PITCH), int64)
    lane = cuda.threadIdx.x
    across = (columns + TILE_EDGE - 1) // TILE_EDGE
    down = (rows + TILE_EDGE - 1) // TILE_EDGE
    for index in range(cuda.blockIdx.x, tiles, cuda.gridDim.x):
        first_column = index % across * TILE_EDGE
        first_row = index // across % down * TILE_EDGE
        matrix = index // across // down
        for step in range(0, TILE_EDGE, TILE_HEIGHT):
            i = step + cuda.threadIdx.y
            row, column = first_row + i, first_column + lane
            if row < rows and column < columns:
                for j in range(pack):
                    turned = int64(0)  # element j of each of the words
                    for k in range(pack):
                        word = int64(x[matrix, row * pack + k, column])
                        turned |= ((word >> (j * bits)) & mask) << (k * bits)
                    staged[j, i, lane] = turned
        cuda.syncthreads()
        for step in range(0, TILE_EDGE, TILE_HEIGHT):
            i = step + cuda.threadIdx.y
            row, column = first_row + lane, first_column + i
            if row < rows and column < columns:
                for j in range(pack):
                    turned = staged[j, lane, i]
                    # of 32 bits, the highest is the sign of an int32
                    y[matrix, column * pack + j, row] = turned - ((turned >> 31) << 32)
        cuda.syncthreads()


def transpose(x: Tensor) -> Tensor:
    if x.dim() < 2:
        raise RuntimeError(
            f"transpose: x must have two dimensions or more, but is of shape {tuple(x.shape)}; pass a row as x[None]"
        )
    if x.itemsize not in INTEGERS:
        raise RuntimeError(
            f"transpose: x must have elements of 1, 2, 4 or 8 bytes, but is {str(x.dtype).removeprefix('torch.')}; "
            "of a complex tensor pass torch.view_as_real(x).movedim(-1, 0), as two"
        )
    *batch, rows, columns = x.shape
    y = x.new_empty((*batch, columns, rows))
    if y.numel() == 0:
        return y
    count = math.prod(batch)
    elements = x.view(INTEGERS[x.itemsize]).reshape(-1).contiguous()
    turned = y.view(elements.dtype).reshape(-1)
    pack = 4 // x.itemsize
    whole = pack > 1 and all(n % pack == 0 for n in (rows, columns, elements.storage_offset()))
    if whole and elements.data_ptr() % 4 == 0:
        words, turned = elements.view(torch.int32), turned.view(torch.int32)
        _launch(transpose_words_kernel, words, turned, count, rows // pack, columns // pack, pack)
    else:
        _launch(transpose_kernel, elements, turned, count, rows, columns)
    return y


def _launch(kernel, x: Tensor, y: Tensor, count: int, rows: int, columns: int, *pack: int) -> None:
    tiles = count * -(-rows // TILE_EDGE) * -(-columns // TILE_EDGE)
    grid, block = min(tiles, MOST_BLOCKS), (TILE_EDGE, TILE_HEIGHT)
    x, y = x.view(count, -1, columns), y.view(count, -1, rows)
    launch(kernel, grid, x, output(y), rows, columns, tiles, *pack, block=block)
