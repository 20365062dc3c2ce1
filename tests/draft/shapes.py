"""Launch functions with lists, parts, dimensions and dtypes that the call decides, as the prototype of one op; see
test_shapes.py."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import check_floating, elementwise_output, flat, launch, launch_elementwise, output


def reference(x: Tensor, window: Sequence[int]) -> Tensor:
    return x


@cuda.jit
def window_kernel(x, means, height, width):
    i = cuda.grid(1)
    if i < means.size:
        row, column = i // means.shape[1] * height, i % means.shape[1] * width
        total = means.dtype.type(0)
        for r in range(height):
            for c in range(width):
                total += x[row + r, column + c]
        means[i // means.shape[1], i % means.shape[1]] = total / means.dtype.type(height * width)


def shapes(x: Tensor, window: Sequence[int]) -> Tensor:
    """An argument is a list of integers."""
    if x.dtype != torch.float32 or x.dim() != 2:
        raise RuntimeError("shapes: x must be a matrix of float32")
    if len(window) > 2 or window[0] < 1 or window[-1] < 1:
        raise RuntimeError(f"shapes: window must be two positive numbers, but has {len(window)}")
    height, width = window
    means = x.new_empty(x.shape[0] // height, x.shape[1] // width)
    launch_elementwise(window_kernel, means.numel(), x, output(means), height, width)
    return means


@cuda.jit
def scaled_channels_kernel(x, scale, y, count):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * scale[i // count % scale.size]


@cuda.jit
def reversed_kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        last = x.shape[2]
        a, b, c = i // last // x.shape[1], i // last % x.shape[1], i % last
        y[a, b, last - 1 - c] = x[a, b, c]


def shapes_channels(x: Tensor, scale: Tensor) -> Tensor:
    """A part of a shape, of at least so many dimensions."""
    if x.dtype != torch.float32 or scale.dtype != torch.float32:
        raise RuntimeError("shapes_channels: x and scale must be of float32")
    if x.dim() < 2 or scale.shape != x.shape[1:2]:
        raise RuntimeError(f"shapes_channels: scale must have a number for each channel of x, but is {scale.shape}")
    count = x[0, 0].numel() if x.shape[0] and x.shape[1] else 0
    y = x.new_empty(x.shape)
    launch_elementwise(scaled_channels_kernel, x.numel(), x.contiguous().view(-1), scale, output(y.view(-1)), count)
    return y


def shapes_reversed(x: Tensor, dim: int) -> Tensor:
    """The dimension along which it works is an argument."""
    if x.dtype != torch.float32 or x.dim() != 3:
        raise RuntimeError("shapes_reversed: x must be of float32 and have three dimensions")
    if x.shape[dim] == 0:
        raise RuntimeError(f"shapes_reversed: dimension {dim} of x has no elements")
    turned = x.transpose(dim, -1)
    y = x.new_empty(turned.shape)
    launch_elementwise(reversed_kernel, x.numel(), turned, output(y))
    return y.transpose(dim, -1)


@cuda.jit
def pair_sums_kernel(a, b, sums):
    i = cuda.grid(1)
    if i < sums.size:
        row, column = i // sums.shape[2], i % sums.shape[2]
        sums[0, row, column] = a[row, column] + b[0, row, column]


def shapes_halves(x: Tensor) -> Tensor:
    """Parts of several dimensions, and new dimensions."""
    if x.dtype != torch.float32 or x.dim() != 3:
        raise RuntimeError("shapes_halves: x must be of float32 and have three dimensions")
    if x.device.type != "cpu" and not x.is_cuda:
        raise RuntimeError("shapes_halves: x must be on a CPU or a GPU")
    half = x.shape[2] // 2
    a, b = x[0, 1:, :half], x[1, 1:, -half:]
    sums = x.new_empty(1, a.shape[0], half)
    launch_elementwise(pair_sums_kernel, sums.numel(), a, b[None], output(sums[:, :]))
    return sums[0][:, None]


@cuda.jit
def doubled_kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


@cuda.jit
def squared_kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i]


@cuda.jit
def negated_kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = -x[i]


How = Literal["double", "square", "negate"]
KERNELS = {"double": doubled_kernel, "square": squared_kernel, "negate": negated_kernel}


def shapes_by_name(x: Tensor, how: How) -> Tensor:
    """A dict has the kernel for a string."""
    check_floating("shapes_by_name", x=x)
    if how not in KERNELS:
        raise RuntimeError(f"shapes_by_name: how must be double, square or negate, but is {how}")
    y = elementwise_output(x)
    launch_elementwise(KERNELS[how], x.numel(), flat(x, y), output(flat(y)))
    return y


@cuda.jit
def masked_kernel(x, limit, below, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] if x[i] < limit else below


NOTHING = -math.inf


def shapes_masked(x: Tensor, limit: float, finite: bool, sizes: list[int]) -> Tensor:
    """Numbers of the dtype, numbers that are not finite, and formats in messages."""
    check_floating("shapes_masked", x=x)
    if limit > torch.finfo(x.dtype).max:
        raise RuntimeError(f"shapes_masked: limit {limit:.3f}, {limit:9.2e} of {len(sizes):.1f} sizes {sizes} is large")
    below = torch.finfo(x.dtype).min if finite else NOTHING
    y = x.new_full(sizes, math.nan)
    launch_elementwise(masked_kernel, x.numel(), x.contiguous().view(-1), limit, below, output(y.view(-1)))
    return y


@cuda.jit
def columns_kernel(x, y, columns):
    i = cuda.grid(1)
    if i < x.size:
        y[i % columns, i // columns] = x[i // columns, i % columns]


def shapes_by_columns(x: Tensor) -> Tensor:
    """A check that a size is not 0: it is then at least 1, by which C++ divides as Python does."""
    if x.dtype != torch.float32 or x.dim() != 2:
        raise RuntimeError("shapes_by_columns: x must be a matrix of float32")
    columns = x.shape[1]
    if columns == 0:
        raise RuntimeError("shapes_by_columns: x has no columns")
    y = x.new_empty(columns, x.shape[0])
    launch_elementwise(columns_kernel, x.numel(), x, output(y), columns)
    return y


@cuda.jit
def sums_kernel(x, y, count, inner):
    i = cuda.grid(1)
    if i < y.size:
        total = y.dtype.type(0)
        for k in range(count):
            total += x[i // inner * count * inner + k * inner + i % inner]
        y[i] = total


def shapes_sums(x: Tensor, dim: int, keep: bool) -> Tensor:
    """A list of sizes of which one changes, or goes, at a place that the call decides."""
    if x.dtype != torch.float32 or x.dim() < 1:
        raise RuntimeError(f"shapes_sums: x must be of float32 and have a dimension, but has {list(x.shape)}")
    x = x.contiguous()
    sizes = list(x.shape)
    if keep:
        sizes[dim] = 1
    else:
        del sizes[dim]
    y = x.new_empty(sizes)
    launch_elementwise(sums_kernel, y.numel(), x.view(-1), output(y.view(-1)), x.shape[dim], x.stride(dim))
    return y


def shapes_tiled(x: Tensor, tiles: list[int]) -> Tensor:
    """Lists of sizes that are made in steps, and conditions on each number of a list."""
    if x.dtype != torch.float32 or x.dim() != 3:
        raise RuntimeError(f"shapes_tiled: x must be of float32 and three dimensions, but is of {list(x.shape)}")
    if not all(tile > 0 for tile in tiles) or math.prod(tiles) != 2:
        raise RuntimeError(f"shapes_tiled: tiles must be positive and have the product 2, but are {tiles}")
    sizes = list(x.shape[:2])
    sizes.insert(1, 2)
    sizes.append(x.shape[2])
    sizes[-1] += 1
    sizes.pop(0)
    sizes = [1, *sizes]
    y = x.new_zeros(sizes)
    if len(sizes) != 4 or sizes[0] != 1:
        raise RuntimeError(f"shapes_tiled: {sizes} {[2, len(tiles)]} {(sizes[1], 0)}")
    launch_elementwise(doubled_kernel, x[0].numel(), x[0].reshape(-1), output(y.view(-1)))
    return y


def shapes_other(x: Tensor, sizes: list[int], how: str) -> Tensor:
    """Comprehensions over sizes whose number the call decides; match, and sets."""
    if x.dtype != torch.float32 or not x.is_contiguous() or how not in {"each", "long", "one", "none"}:
        raise RuntimeError(f"shapes_other: x must be contiguous and float32, how {how} each, long, one or none")
    if any(k < 0 for k in x.shape if k != 1) or not all(k > 1 for k in sizes if k != 1):
        raise RuntimeError(f"shapes_other: {[k - 1 for k in sizes]} of {[k for k in x.shape if k > 1]}")
    match how:
        case "each" | "none":
            made = [k if d % 2 == 0 else 1 for d, k in enumerate(x.shape)]
        case "long" if len(sizes) > 0:
            made = [k for k in x.shape if k > sizes[0]]
        case other:
            if other == "long":
                raise RuntimeError(f"shapes_other: how is {other}, and sizes has no number")
            made = [math.prod(k + 1 for k in sizes)]
    y = x.new_ones(made)
    match x.dim(), how:
        case _:
            launch_elementwise(doubled_kernel, min(y.numel(), x.numel()), x.view(-1)[: y.numel()], output(y.view(-1)))
    return y


@cuda.jit
def matched_kernel(x, mode, y):
    i = cuda.grid(1)
    if i < x.size:
        match mode:
            case 0:
                y[i] = x[i]
            case 1 | 2 if x[i] > 0:  # only these
                y[i] = 2 * x[i]
            case _:
                y[i] = -x[i]


def shapes_matched(x: Tensor, mode: int, wide: bool) -> Tensor:
    """match in a kernel, and a grid that has other extents in each branch."""
    check_floating("shapes_matched", x=x)
    y = x.new_empty(x.shape)
    blocks = -(-x.numel() // 64)
    if wide:
        y.zero_()
        grid = (blocks, 1)
    else:
        grid = (blocks + 1, 1)
    launch(matched_kernel, grid, x.reshape(-1), mode, output(y.view(-1)), block=64)
    return y


def shapes_parts(x: Tensor, dim: int) -> Tensor:
    """Parts of a shape whose ends the call decides, and one of a tensor of any number of dimensions."""
    if x.dtype != torch.float32:
        raise RuntimeError(f"shapes_parts: x must be float32, not {x.dtype}")
    first, second = x.shape[:2]
    if dim < 1 or dim >= x.dim():
        raise RuntimeError(f"shapes_parts: dim must be from 1 to {x.dim() - 1}, but is {dim}")
    before, after = x.shape[:dim], x.shape[dim:]
    total = first + 10 * second + 100 * math.prod(before) + 1000 * math.prod(x.shape[-dim:][1:])
    y = x.new_full((*after, *before), float(total))
    z = torch.empty(x.shape[:dim] + x.shape[dim + 1 :], dtype=x.dtype, device=x.device)
    launch_elementwise(doubled_kernel, y.numel(), y.view(-1), output(y.view(-1)))
    return y.view(-1)[:1].expand(z.shape[1:] + z.shape[:1])
