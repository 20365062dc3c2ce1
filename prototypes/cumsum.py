"""cumsum: the reference, and the prototype of cuda_src/cumsum.cuh."""

import torch
from numba import cuda
from torch import Tensor

from trifold.device import thread_index
from trifold.prototype import THREADS_PER_BLOCK, launch, output, rows, threads_for

# ------------------------------------------------------------------------------------------------- reference


def reference(x: Tensor) -> Tensor:
    return _by_doubling(x) if x.dtype == torch.float64 else torch.cumsum(x, -1)


def _by_doubling(x: Tensor) -> Tensor:
    """torch.cumsum, with log2(columns) additions per number (Hillis and Steele). torch adds term by term, which over
    100,000 equal numbers accumulates an error of 1,000 round-offs and more."""
    y = (x if x.dim() > 0 else x.reshape(1)).contiguous() + 0  # -0 + 0 is 0, as at the start of a sum
    distance = 1
    while distance < y.shape[-1]:
        y = torch.cat([y[..., :distance], y[..., distance:] + y[..., :-distance]], -1)
        distance *= 2
    return y.reshape(x.shape)


# ------------------------------------------------------------------------------------------------- prototype

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32
ALL_LANES = 0xFFFFFFFF

# One number per thread, where the port has 16.
TILE = THREADS_PER_BLOCK

# Resident blocks; at least twice as many rows count as many.
RESIDENT_BLOCKS = 4

NOTHING, AGGREGATE, PREFIX = 0, 1, 2  # states of a tile


@cuda.jit(device=True)
def load(x, row, position, columns, reverse):
    """The number at a position of the scan; 0 after the last one."""
    if position >= columns:
        return 0
    return x[row, columns - 1 - position if reverse else position]


@cuda.jit(device=True)
def store(y, row, position, columns, reverse, value):
    if position < columns:
        y[row, columns - 1 - position if reverse else position] = value


@cuda.jit(device=True)
def warp_scan(value):
    """The inclusive prefix sum over the lanes of a warp."""
    for distance in (1, 2, 4, 8, 16):
        left = cuda.shfl_up_sync(ALL_LANES, value, distance)
        if cuda.threadIdx.x % 32 >= distance:
            value += left
    return value


@cuda.jit(device=True)
def block_scan(value, of_warp):
    """The scan of the block's values: within this thread's warp; the sum of the warps before it; the sum of all."""
    warp = cuda.threadIdx.x // 32
    warps = cuda.blockDim.x // 32
    value = warp_scan(value)
    if cuda.threadIdx.x % 32 == 31:
        of_warp[warp] = value
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total = of_warp[0]
        for other in range(1, warps):
            total += of_warp[other]
            of_warp[other] = total
    cuda.syncthreads()
    before = of_warp[warp - 1] if warp > 0 else 0
    total = of_warp[warps - 1]
    cuda.syncthreads()
    return value, before, total


@cuda.jit
def cumsum_rows_kernel(x, y, rows, columns, reverse):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, y.dtype)
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        carry = 0  # float64, or int64 for integers
        for first in range(0, columns, cuda.blockDim.x):
            position = first + cuda.threadIdx.x
            value, before, total = block_scan(load(x, row, position, columns, reverse), of_warp)
            store(y, row, position, columns, reverse, value + (carry + before))
            carry += total


@cuda.jit
def cumsum_reset_kernel(states, n):
    i = thread_index()
    if i < n:
        states[i] = NOTHING


@cuda.jit(device=True)
def publish(to, states, tile, value, state):
    to[tile] = value
    cuda.threadfence()
    cuda.atomic.exch(states, tile, state)


@cuda.jit(device=True)
def sum_before(tile, apart, states, aggregates, prefixes):
    """The sum of the row's tiles before this one, computed by one warp; tiles of a row are ``apart``."""
    lane = cuda.threadIdx.x % 32
    # Backwards to the nearest tile whose prefix is published, 32 tiles at a time.
    back = 0
    known = 0
    while known == 0:
        other = tile - (back + 1 + lane) * apart
        waits = True
        while waits:
            state = cuda.atomic.add(states, other, 0) if other >= 0 else AGGREGATE
            known = cuda.ballot_sync(ALL_LANES, state == PREFIX)
            missing = cuda.ballot_sync(ALL_LANES, state == NOTHING)
            nearer = (known & -known) - 1 if known != 0 else ALL_LANES
            waits = (missing & nearer) != 0
            if waits:
                cuda.nanosleep(20)
        if known == 0:
            back += 32
    cuda.threadfence()
    cuda.syncwarp()  # orders a lane's reads after another lane's reads of the states
    count = back + cuda.ffs(known) - 1  # tiles after the nearest one
    nearest = tile - (count + 1) * apart
    # Forwards: the same additions whichever tile was the nearest.
    total = prefixes[nearest]
    for first in range(1, count + 1, 32):
        own = aggregates[nearest + (first + lane) * apart] if first + lane <= count else 0
        for i in range(32):
            total += cuda.shfl_sync(ALL_LANES, own, i)
    return total


@cuda.jit
def cumsum_tiles_kernel(x, y, rows, columns, reverse, states, aggregates, prefixes, claimed):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, y.dtype)
    claim = cuda.shared.array(1, states.dtype)
    carry = cuda.shared.array(1, prefixes.dtype)
    tiles = rows * ((columns + TILE - 1) // TILE)
    while True:
        if cuda.threadIdx.x == 0:
            claim[0] = cuda.atomic.add(claimed, 0, 1)
        cuda.syncthreads()
        tile = claim[0]
        if tile >= tiles:
            return
        row = tile % rows
        position = tile // rows * TILE + cuda.threadIdx.x
        value, before, total = block_scan(load(x, row, position, columns, reverse), of_warp)
        if cuda.threadIdx.x < 32:
            earlier = 0
            if tile >= rows:
                if cuda.threadIdx.x == 0:
                    publish(aggregates, states, tile, total, AGGREGATE)
                earlier = sum_before(tile, rows, states, aggregates, prefixes)
            if cuda.threadIdx.x == 0:
                publish(prefixes, states, tile, earlier + total, PREFIX)
                carry[0] = earlier
        cuda.syncthreads()
        store(y, row, position, columns, reverse, value + (carry[0] + before))


def cumsum(x: Tensor, reverse: bool) -> Tensor:
    _check_dtype(x)
    integer = not x.dtype.is_floating_point
    y = x.new_empty(x.shape, dtype=torch.int64 if integer else x.dtype)
    count, columns = rows(x).shape
    if x.numel() == 0:
        return y
    if columns <= TILE or count >= 2 * RESIDENT_BLOCKS:
        block = threads_for(columns)
        launch(cumsum_rows_kernel, count, rows(x), output(rows(y)), count, columns, reverse, block=block)
        return y
    tiles = count * -(-columns // TILE)
    states = x.new_empty(tiles + 1, dtype=torch.int32)  # the last element counts claimed tiles
    sums = x.new_empty((2, tiles), dtype=torch.int64 if integer else torch.float64)
    launch(cumsum_reset_kernel, -(-(tiles + 1) // THREADS_PER_BLOCK), output(states), tiles + 1)
    launch(
        cumsum_tiles_kernel,
        min(tiles, RESIDENT_BLOCKS),
        *(rows(x), output(rows(y)), count, columns, reverse),
        *(output(states[:tiles]), output(sums[0]), output(sums[1]), output(states[tiles:])),
    )
    return y


def _check_dtype(x: Tensor) -> None:
    known = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32)
    if x.dtype not in known:
        raise RuntimeError(
            f"cumsum: x must be float64, float32, float16, bfloat16, int64 or int32, not "
            f"{str(x.dtype).removeprefix('torch.')}; convert it with x.to(torch.float32)"
        )
