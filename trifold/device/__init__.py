"""Device functions for prototypes, with the names of their C++ counterparts (``<trifold/*.cuh>``).

    from trifold.device import block_sum, philox_normal

Without a counterpart here: the 16-byte vectors of ``<trifold/vector.cuh>``, since Numba has no load of that width; and
launches, which are ``trifold.prototype.launch``.
"""

from trifold.device.launch import ceil_div, thread_index
from trifold.device.philox import (
    box_muller,
    philox4x32_10,
    philox_group,
    philox_normal,
    philox_normals,
    philox_signed_uniform,
    philox_uniform,
)
from trifold.device.reduce import (
    add_compensated,
    block_max,
    block_sum,
    larger,
    team_max,
    team_sum,
    warp_max,
    warp_sum,
)

__all__ = [
    "add_compensated",
    "block_max",
    "block_sum",
    "box_muller",
    "ceil_div",
    "larger",
    "philox4x32_10",
    "philox_group",
    "philox_normal",
    "philox_normals",
    "philox_signed_uniform",
    "philox_uniform",
    "team_max",
    "team_sum",
    "thread_index",
    "warp_max",
    "warp_sum",
]
