"""Calls of floating dtypes and memory layouts that the spec never draws.

An op may refuse them. If it accepts them, it must be right: callers know what an op accepts, not what its spec draws.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from trifold.findings import KernelFault
from trifold.spec import DTYPES, Call, IndexCase, TensorCase
from trifold.spec.case import AnyCase, Layout
from trifold.verification.calls import exchanged
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import in_dtype
from trifold.verification.outcomes import CheckFailed

_SMALL = 4096  # elements
_OTHER_LAYOUTS: tuple[Layout, ...] = ("transposed", "sliced", "expanded", "offset")
_CONTIGUOUS: frozenset[Layout] = frozenset({"contiguous", "offset"})


def undrawn_calls(cell: Cell) -> Iterator[tuple[str, Call]]:
    """Variations of the calls of the values check, by name: each has a dtype or a layout that none of them has."""
    calls = [call for call in cell.calls if 0 < call.elements <= _SMALL]
    floating = [call for call in calls if any(case.dtype.is_floating_point for _, case in call.floating())]
    drawn = {case.dtype for call in cell.calls for _, case in call.floating()}
    for dtype in DTYPES if floating else ():
        if dtype not in drawn:
            yield f"{str(dtype).removeprefix('torch.')}, which no call of the spec has", in_dtype(floating[0], dtype)
    for path in dict.fromkeys(path for call in calls for path, _ in call.cases()):
        if any(path in cell.written_paths(call) for call in calls):
            continue
        at_path = [(call, case) for call in calls for other, case in call.cases() if other == path and _varies(case)]
        layouts = {case.layout for _, case in at_path}
        if not layouts or not layouts <= _CONTIGUOUS:
            continue
        call, case = max(at_path, key=lambda one: len(one[1].shape))
        for layout in [other for other in _OTHER_LAYOUTS if other not in layouts]:
            other = replace(case, layout=layout, offset=1, dim=len(case.shape) - 1)
            name = f"{cell.name(path)} {layout}, where it is contiguous in each call of the spec"
            yield name, call.with_cases(functools.partial(exchanged, case, other))


def _varies(case: AnyCase) -> bool:
    """Whether the case has other layouts."""
    if isinstance(case, IndexCase) and case.order != "any":
        return False
    return isinstance(case, TensorCase | IndexCase) and math.prod(case.shape) > 1 and max(case.shape) > 1


def right_or_refused(cell: Cell, compare: Callable[[Cell, Call], object]) -> None:
    """Raises ``CheckFailed`` if the op accepts such a call and its results are wrong."""
    for name, call in undrawn_calls(cell):
        try:
            cell.refer(call)
        except CheckFailed:  # the reference refuses it
            continue
        cell.begin(call, name)
        try:
            cell.invoke(call)
        except KernelFault:
            raise
        except (RuntimeError, TypeError, ValueError):
            continue
        try:
            cell.run_case(lambda call: compare(cell, call), call, name)
        except CheckFailed as error:
            raise CheckFailed(
                f"{error.message}\nthe op takes {name}: refuse it, or be right and draw it", call, name, error.findings
            ) from error
