"""matmul_tiled: the reference, and the prototype of cuda_src/matmul_tiled.cuh.

Numba has no wmma: here half types use the same tiles and are added in float32, while the port multiplies them on tensor
cores.
"""

from numba import cuda
from torch import Tensor

from trifold.prototype import check_floating, launch, output


def reference(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


# Elements across a tile, and along k: half of the port's, since the simulator spends its time on the zeros that pad a
# tile.
TILE, STEP = 32, 8
PITCH = TILE + 4  # from one k to the next
SIDE, OWN = 8, 4  # threads across a tile; elements of a thread
THREADS = SIDE * SIDE  # per block
LOADS = TILE * STEP // THREADS  # per thread and tile


@cuda.jit(device=True)
def load_tile(tile, matrix, along_k, first_i, size, first_k, inner):
    thread = cuda.threadIdx.y * SIDE + cuda.threadIdx.x
    for load in range(LOADS):
        element = load * THREADS + thread
        i = element // STEP if along_k else element % TILE
        k = element % STEP if along_k else element // TILE
        inside = first_i + i < size and first_k + k < inner
        tile[k, i] = matrix[first_i + i, first_k + k] if inside else 0


@cuda.jit
def matmul_tiled_kernel(a, a_along_k, b_transposed, b_along_k, out, rows, columns, inner):
    a_tile = cuda.shared.array((STEP, PITCH), a.dtype)
    b_tile = cuda.shared.array((STEP, PITCH), a.dtype)
    tiles_a_row = (columns + TILE - 1) // TILE
    first_row = cuda.blockIdx.x // tiles_a_row * TILE
    first_column = cuda.blockIdx.x % tiles_a_row * TILE
    own_row = cuda.threadIdx.y * OWN
    own_column = cuda.threadIdx.x * OWN
    # A thread whose elements are all outside computes none, to spare the simulator sums of zeros.
    own_steps = STEP if first_row + own_row < rows and first_column + own_column < columns else 0

    sums = cuda.local.array((OWN, OWN), a.dtype)
    for i in range(OWN):
        for j in range(OWN):
            sums[i, j] = 0
    for first_k in range(0, inner, STEP):
        load_tile(a_tile, a, a_along_k, first_row, rows, first_k, inner)
        load_tile(b_tile, b_transposed, b_along_k, first_column, columns, first_k, inner)
        cuda.syncthreads()
        for k in range(own_steps):
            for i in range(OWN):
                of_a = a_tile[k, own_row + i]
                for j in range(OWN):
                    sums[i, j] += of_a * b_tile[k, own_column + j]
        cuda.syncthreads()

    for i in range(OWN):
        row = first_row + own_row + i
        for j in range(OWN):
            column = first_column + own_column + j
            if row < rows and column < columns:
                out[row, column] = sums[i, j]


def matmul_tiled(a: Tensor, b: Tensor) -> Tensor:
    _check_operands(a, b)
    (rows, inner), columns = a.shape, b.shape[1]
    out = a.new_empty((rows, columns))
    tiles = -(-rows // TILE) * -(-columns // TILE)
    launch(
        matmul_tiled_kernel,
        tiles,
        *(a, a.stride(1) <= a.stride(0), b.t(), b.stride(0) < b.stride(1), output(out), rows, columns, inner),
        block=(SIDE, SIDE),
    )
    return out


def _check_operands(a: Tensor, b: Tensor) -> None:
    def check(condition: bool, problem: str, remedy: str) -> None:
        if not condition:
            raise RuntimeError(f"matmul_tiled: {problem}; {remedy}")

    check(
        a.device == b.device,
        f"a and b must be on the same device, but a is on {a.device} and b is on {b.device}",
        "move one with b.to(a.device)",
    )
    check_floating("matmul_tiled", a=a)
    names = [str(x.dtype).removeprefix("torch.") for x in (a, b)]
    check(
        a.dtype == b.dtype,
        f"a and b must have the same dtype, but a is {names[0]} and b is {names[1]}",
        "convert one with b.to(a.dtype)",
    )
    check(
        a.dim() == 2 and b.dim() == 2 and a.shape[1] == b.shape[0],
        f"a and b must have the shapes (M, K) and (K, N), but a is {tuple(a.shape)} and b is {tuple(b.shape)}",
        "multiply a batch matrix by matrix, and reshape a vector to a row",
    )
