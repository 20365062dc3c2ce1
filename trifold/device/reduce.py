"""Reductions over the lanes of a warp and the threads of a block: the device functions of ``<trifold/reduce.cuh>``.

Every thread gets the result, the same bit for bit: the order in which values are combined depends only on their
positions. One thread combines the values of a block's warps. In C++ each thread does, which saves a barrier; the
simulator would run these loops one after the other.
"""

from numba import cuda

_ALL_LANES = 0xFFFFFFFF


@cuda.jit(device=True)
def larger(a, b):  # type: ignore[no-untyped-def]
    """The larger one of two numbers; nan if either is: ``trifold::Max``."""
    return a if a > b or a != a else b


@cuda.jit(device=True)
def warp_sum(value):  # type: ignore[no-untyped-def]
    """The sum over a warp's 32 lanes; all lanes call it; int32, int64, float32 or float64."""
    for lanes in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(_ALL_LANES, value, lanes)
    return value


@cuda.jit(device=True)
def warp_max(value):  # type: ignore[no-untyped-def]
    """The maximum over a warp's 32 lanes, nan if one is; all lanes call it. Types as :func:`warp_sum`."""
    for lanes in (16, 8, 4, 2, 1):
        value = larger(value, cuda.shfl_xor_sync(_ALL_LANES, value, lanes))
    return value


@cuda.jit(device=True)
def block_sum(value, of_warp):  # type: ignore[no-untyped-def]
    """The sum over a block's threads; all threads call it.

    Ends with a barrier, so that it can be called again at once.

    Args:
        value: int32, int64, float32 or float64.
        of_warp: a shared array of that type with an element per warp. The block is one-dimensional and consists of
            whole warps.
    """
    return team_sum(value, of_warp, cuda.blockDim.x)


@cuda.jit(device=True)
def block_max(value, of_warp):  # type: ignore[no-untyped-def]
    """The maximum over a block's threads, nan if one is; otherwise as :func:`block_sum`."""
    return team_max(value, of_warp, cuda.blockDim.x)


@cuda.jit(device=True)
def team_sum(value, of_warp, team):  # type: ignore[no-untyped-def]
    """The sum over each team of a block; all threads of the block call it.

    Args:
        value, of_warp: as for :func:`block_sum`; for teams within a warp, ``of_warp`` is not used.
        team: the number of neighbouring threads: a power of two up to 32, or all of the block.
    """
    lanes = 16 if team > 32 else team // 2
    while lanes > 0:
        value += cuda.shfl_xor_sync(_ALL_LANES, value, lanes)
        lanes //= 2
    if team > 32:
        if cuda.threadIdx.x % 32 == 0:
            of_warp[cuda.threadIdx.x // 32] = value
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            for warp in range(1, team // 32):
                value += of_warp[warp]
            of_warp[0] = value
        cuda.syncthreads()
        value = of_warp[0]
        cuda.syncthreads()
    return value


@cuda.jit(device=True)
def team_max(value, of_warp, team):  # type: ignore[no-untyped-def]
    """The maximum over each team of a block, nan if one is; otherwise as :func:`team_sum`."""
    lanes = 16 if team > 32 else team // 2
    while lanes > 0:
        value = larger(value, cuda.shfl_xor_sync(_ALL_LANES, value, lanes))
        lanes //= 2
    if team > 32:
        if cuda.threadIdx.x % 32 == 0:
            of_warp[cuda.threadIdx.x // 32] = value
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            for warp in range(1, team // 32):
                value = larger(value, of_warp[warp])
            of_warp[0] = value
        cuda.syncthreads()
        value = of_warp[0]
        cuda.syncthreads()
    return value


@cuda.jit(device=True)
def add_compensated(total, lost, term):  # type: ignore[no-untyped-def]
    """``total + term``, and its rounding error: ``trifold::CompensatedSum`` (Kahan 1965).

    The error of ``total - lost`` does not grow with the number of terms. Infinities and nan are as in a plain sum.

    Args:
        total, lost: of one type; both begin as 0.
        term: of that type.
    """
    corrected = term - lost
    following = total + corrected
    error = (following - total) - corrected
    return following, error if error - error == 0 else lost - lost
