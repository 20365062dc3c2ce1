"""The floating dtypes that an op takes: many a kernel is written for one.

A row that computes in another one, such as gradcheck in float64, is not run if the op refuses it.
"""

from __future__ import annotations

import torch

from trifold.findings import KernelFault
from trifold.spec import DTYPES, Call
from trifold.verification.calls import FORMS, FORMS_LIMITS, FORMS_SALT, CallSource
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import in_dtype_of_spec
from trifold.verification.outcomes import MAY_REFUSE


def takes(cell: Cell, dtype: torch.dtype) -> bool:
    """Whether some call of the spec is in ``dtype``, or the op accepts a small one that is changed to it."""
    if dtype not in cell.taken:
        cell.taken[dtype] = _takes(cell, dtype)
    return cell.taken[dtype]


def _takes(cell: Cell, dtype: torch.dtype) -> bool:
    calls = cell.small_calls()
    own = next((call for call in reversed(calls) if any(True for _ in call.floating())), calls[-1])
    call = in_dtype_of_spec(cell, own, dtype)
    if call == own or dtype in dtypes_of_spec(cell):
        return True
    cell.begin(call, f"a call in {str(dtype).removeprefix('torch.')}, which the op may refuse")
    try:
        cell.invoke(call)
    except KernelFault:
        return True
    except MAY_REFUSE:
        return False
    return True


def dtypes_of_spec(cell: CallSource) -> list[torch.dtype]:
    """The floating dtypes of the spec's calls, float32 first."""
    drawn = cell.drawn_calls(FORMS_LIMITS, FORMS, salt=FORMS_SALT)
    found = {call.dtype for call in (*(call for _, call in cell.fixed_calls()), *drawn)}
    return [dtype for dtype in DTYPES if dtype in found]


def taken(cell: Cell) -> list[torch.dtype]:
    """Float32 first, if the op takes it, then the others that it takes, the most exact first."""
    return [dtype for dtype in DTYPES if takes(cell, dtype)]


def in_usual_dtype(cell: Cell, call: Call) -> Call:
    """The call with its floating tensors in float32, or another dtype if the op refuses that."""
    dtypes = taken(cell)
    return in_dtype_of_spec(cell, call, dtypes[0]) if dtypes else call
