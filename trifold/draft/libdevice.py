"""libdevice's functions, by their names in CUDA C++."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from numba import cuda, types
from numba.cuda import libdevice, libdevicefuncs

# Intrinsics, which begin with two underscores in C++; and names that differ.
_INTRINSIC = re.compile(
    r".*_r[nzud]|saturatef|[u]?(hadd|rhadd|sad|mul24|mulhi|mul64hi)|brev(ll)?|byte_perm|clz(ll)?|ffs(ll)?|popc(ll)?|"
    r"double2(hi|lo)int|hiloint2double|\w+_as_\w+"
)
_OTHER = {
    "isfinited": "isfinite", "finitef": "isfinite", "isinfd": "isinf", "isinff": "isinf", "isnand": "isnan",
    "isnanf": "isnan", "signbitd": "signbit", "signbitf": "signbit", "fast_fdividef": "__fdividef", "powi": "pow",
    "powif": "powf", "ullmax": "ullmax", "ullmin": "ullmin",
}  # fmt: skip
# Half types are integers in these.
_NOT_TRANSLATED = {"float2half_rn", "half2float"}


@dataclass(frozen=True)
class WithOutputs:
    """A function that writes results through pointers, which come last, and may also return one."""

    name: str
    returns: bool


def _name(own: str) -> str:
    if own in _OTHER:
        return _OTHER[own]
    if own.startswith("fast_"):
        return f"__{own.removeprefix('fast_')}"
    return f"__{own}" if _INTRINSIC.fullmatch(own) else own


def _all() -> tuple[dict[Any, str], dict[Any, WithOutputs]]:
    plain: dict[Any, str] = {}
    with_outputs: dict[Any, WithOutputs] = {}
    for full, (result, arguments) in libdevicefuncs.functions.items():
        own = full.removeprefix("__nv_")
        stub = getattr(libdevice, own, None)
        if stub is None or own in _NOT_TRANSLATED:
            continue
        if any(each.is_ptr for each in arguments):
            with_outputs[stub] = WithOutputs(_name(own), result != types.void)
        else:
            plain[stub] = _name(own)
    return plain, with_outputs


#: By Numba's names: functions of numbers, and those that write results through pointers.
FUNCTIONS, WITH_OUTPUTS = _all()
WITH_OUTPUTS |= {
    math.frexp: WithOutputs("frexp", returns=True),
    math.modf: WithOutputs("modf", returns=True),
    cuda.match_all_sync: WithOutputs("trifold::match_all_sync", returns=True),
}
