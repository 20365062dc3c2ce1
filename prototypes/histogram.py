"""histogram: the reference, and the prototype of cuda_src/histogram.cuh."""

import math

import numpy as np
import torch
from numba import cuda, uint32
from torch import Tensor

from trifold.prototype import check_floating, launch, launch_elementwise, output


def reference(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    """torch.histc's formula, with each of its four operations rounded to nearest, in float32 or, for float64, in
    float64: other formulas and types put some of the numbers at the edges into a neighbouring bin."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    # As tensors on the device of x: a division by a Python number is a product with its reciprocal on a GPU.
    first, last, count = (torch.tensor(number, dtype=wide, device=x.device) for number in (low, high, bins))
    counted = x.detach().to(wide)
    counted = counted[(counted >= first) & (counted <= last)]
    chosen = ((counted - first) * count / (last - first)).long()
    return torch.bincount(chosen.clamp(max=bins - 1), minlength=bins)


# ------------------------------------------------------------------------------------------------- prototype

BLOCK = 512
MOST_BLOCKS = 4 * 132
SHARED_COUNTERS = 8192
MOST_COPIES = 32
VECTORS_AT_ONCE = 2


@cuda.jit(device=True)
def bin_of(x, low, high, factor, bins):  # type: ignore[no-untyped-def]
    if not (x >= low and x <= high):
        return -1
    return min(int((x - low) * factor / (high - low)), bins - 1)


@cuda.jit
def histogram_zero_kernel(counts, bins):
    i = cuda.grid(1)
    if i < bins:
        counts[i] = 0


@cuda.jit
def histogram_kernel(x, counts, n, bins, copies, low, high, factor):
    of_block = cuda.shared.array(SHARED_COUNTERS, uint32)
    for i in range(cuda.threadIdx.x, bins * copies, BLOCK):
        of_block[i] = 0
    cuda.syncthreads()
    copy = cuda.threadIdx.x % copies
    for i in range(cuda.grid(1), n, cuda.gridDim.x * BLOCK):
        chosen = bin_of(x[i], low, high, factor, bins)
        if chosen >= 0:
            cuda.atomic.add(of_block, chosen * copies + copy, 1)
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, bins, BLOCK):
        rotated = i * copies // MOST_COPIES
        total = 0
        for k in range(copies):
            total += of_block[i * copies + (rotated + k) % copies]
        if total > 0:
            cuda.atomic.add(counts, i, total)


@cuda.jit
def histogram_global_kernel(x, counts, n, bins, low, high, factor):
    for i in range(cuda.grid(1), n, cuda.gridDim.x * BLOCK):
        chosen = bin_of(x[i], low, high, factor, bins)
        if chosen >= 0:
            cuda.atomic.add(counts, chosen, 1)


def histogram(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    check_floating("histogram", x=x)
    _check(bins > 0, f"histogram: bins must be positive, but is {bins}", "pass 1 or more")
    real = np.float64 if x.dtype == torch.float64 else np.float32
    edges = _edges(x, bins, low, high, real)
    counts = x.new_empty(bins, dtype=torch.int64)
    launch_elementwise(histogram_zero_kernel, bins, output(counts), bins)
    elements = x.reshape(-1)
    n = elements.numel()
    size = 16 // x.element_size()
    blocks = min(-(-n // (BLOCK * VECTORS_AT_ONCE * size)), MOST_BLOCKS)
    if bins <= SHARED_COUNTERS:
        copies = min(1 << (SHARED_COUNTERS // bins).bit_length() - 1, MOST_COPIES)
        launch(histogram_kernel, blocks, elements, output(counts), n, bins, copies, *edges, block=BLOCK)
    else:
        launch(histogram_global_kernel, blocks, elements, output(counts), n, bins, *edges, block=BLOCK)
    return counts


def _edges(x: Tensor, bins: int, low: float, high: float, real: type) -> tuple[np.floating, np.floating, np.floating]:
    """low, high and bins in the type that bins are computed in."""
    with np.errstate(over="ignore", invalid="ignore"):
        first, last, factor = real(low), real(high), real(bins)
        range_is_known = math.isfinite(first) and math.isfinite(last) and first < last
        _check(
            range_is_known and math.isfinite((last - first) * factor),
            f"histogram: low must be less than high, and both and (high - low) * bins finite in {real.__name__}, but "
            f"low is {low:g} and high is {high:g}",
            "pass the range of the numbers to count",
        )
    return first, last, factor


def _check(condition: bool, problem: str, remedy: str) -> None:
    if not condition:
        raise RuntimeError(f"{problem}; {remedy}")
