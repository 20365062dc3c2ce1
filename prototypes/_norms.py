"""Shared by the prototypes of the norms: sums over the rows of a matrix in two steps, results, and checks of arguments.

The C++ counterparts are in ``cuda_src/rows/norms.cuh`` and ``cuda_src/rows/norms.h``.
"""

from __future__ import annotations

import math

import torch
from numba import cuda
from torch import Tensor

from trifold.device import add_compensated
from trifold.prototype.arguments import check_floating
from trifold.prototype.launch import launch, output

COLUMN_BLOCK, COLUMN_THREADS = 32, 4  # a block sums 32 columns, each with 4 threads


@cuda.jit(device=True)
def column_sum(value, of_thread):  # type: ignore[no-untyped-def]
    """The sum over the threads of this thread's column; all threads of the block call it.

    Ends with a barrier, so that it can be called again at once.

    Args:
        value: float32 or float64.
        of_thread: a shared array of that type, ``(COLUMN_THREADS, COLUMN_BLOCK)``.
    """
    of_thread[cuda.threadIdx.y, cuda.threadIdx.x] = value
    cuda.syncthreads()
    value = of_thread[0, cuda.threadIdx.x]
    for thread in range(1, COLUMN_THREADS):
        value += of_thread[thread, cuda.threadIdx.x]
    cuda.syncthreads()
    return value


@cuda.jit
def sum_parts_kernel(parts, first, second, count, columns):  # type: ignore[no-untyped-def]
    of_thread = cuda.shared.array((COLUMN_THREADS, COLUMN_BLOCK), parts.dtype)
    C = parts.dtype.type
    column = cuda.blockIdx.x * COLUMN_BLOCK + cuda.threadIdx.x
    total = C(0)
    lost = C(0)
    if column < columns:
        for part in range(cuda.threadIdx.y, count, COLUMN_THREADS):
            total, lost = add_compensated(total, lost, parts[cuda.blockIdx.y, part, column])
    total = column_sum(total - lost, of_thread)
    if cuda.threadIdx.y == 0 and column < columns:
        if cuda.blockIdx.y == 0:
            first[column] = total
        else:
            second[column] = total


def share_rows(rows: int, columns: int) -> tuple[int, int]:
    """The number of blocks that share the rows of each 32 columns, and the rows of each: ``trifold::share_rows``."""
    least, blocks = 8 * COLUMN_THREADS, 8 * 132
    across = max(1, -(-columns // COLUMN_BLOCK))
    rows_a_part = max(least, -(-rows // max(1, blocks // across)))
    return max(1, -(-rows // rows_a_part)), rows_a_part


def launch_columns(kernel: object, columns: int, height: int, *arguments: object) -> None:
    """Run ``kernel`` with a block per 32 columns, and ``height`` of them along the other dimension of the grid."""
    launch(kernel, (-(-columns // COLUMN_BLOCK), height), *arguments, block=(COLUMN_BLOCK, COLUMN_THREADS))


def sum_parts(parts: Tensor, *results: Tensor) -> None:
    """The second step: add up ``parts``, of shape (results, parts, columns), to one or two ``results``."""
    first, second = results if len(results) == 2 else (*results, results[0].new_empty(0))
    _, count, columns = parts.shape
    launch_columns(sum_parts_kernel, columns, len(results), parts, output(first), output(second), count, columns)


def row_statistics(x: Tensor, kinds: int) -> Tensor:
    """A new, uninitialised tensor of ``kinds`` numbers per row of ``x``; float64 for float64, else float32."""
    return x.new_empty(
        (kinds, math.prod(x.shape[:-1])), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32
    )


def of_columns(x: Tensor, wanted: bool) -> Tensor:
    """A new, uninitialised tensor of one number per column of ``x``, in its dtype; empty if not wanted."""
    return x.new_empty(x.shape[-1] if wanted else 0)


def check_rows(op: str, **tensors: Tensor) -> None:
    """Require each of ``tensors`` to have a floating dtype and at least one dimension."""
    check_floating(op, **tensors)
    for name, tensor in tensors.items():
        if tensor.dim() == 0:
            raise RuntimeError(
                f"{op}: {name} must have a last dimension to be normalised along, but has none; pass {name}.reshape(1)"
            )


def check_of_columns(op: str, x: Tensor, **numbers: Tensor | None) -> None:
    """Require each of ``numbers`` that is not None to have one number for each column of ``x``, of its dtype and
    device."""
    for name, tensor in numbers.items():
        if tensor is None:
            continue
        if tensor.device != x.device:
            raise RuntimeError(
                f"{op}: x and {name} must be on the same device, but x is on {x.device} and {name} is on "
                f"{tensor.device}; move one with {name}.to(x.device)"
            )
        if tensor.dtype != x.dtype:
            raise RuntimeError(
                f"{op}: x and {name} must have the same dtype, but x is {_name(x)} and {name} is {_name(tensor)}; "
                f"convert one with {name}.to(x.dtype)"
            )
        if tensor.shape != x.shape[-1:]:
            raise RuntimeError(
                f"{op}: {name} must have the shape ({x.shape[-1]},), a number for each column of x, not "
                f"{tuple(tensor.shape)}"
            )


def given(numbers: Tensor | None, x: Tensor) -> Tensor:
    """``numbers``, or an empty tensor if it is None."""
    return x.new_empty(0) if numbers is None else numbers


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
