"""Calls that a spec leaves out, and whether an op takes them: dtypes and layouts in memory that no case of it has.

An op may refuse them. If it takes them, it must be right: a caller sees what an op accepts, not what its spec draws.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from trifold.findings import KernelFault
from trifold.spec import DTYPES, Call, IndexCase, TensorCase
from trifold.spec.case import AnyCase, Layout
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import in_dtype
from trifold.verification.outcomes import CheckFailed

_SMALL = 4096  # elements
_OTHER_LAYOUTS: tuple[Layout, ...] = ("transposed", "sliced", "expanded", "offset")


def unasked_calls(cell: Cell) -> Iterator[tuple[str, Call]]:
    """Calls of the values check with what none of them has, by what that is."""
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
        if not at_path or any(case.layout != "contiguous" for _, case in at_path):
            continue
        call, case = max(at_path, key=lambda one: len(one[1].shape))
        for layout in _OTHER_LAYOUTS:
            other = replace(case, layout=layout, offset=1, dim=len(case.shape) - 1)
            name = f"{cell.name(path)} {layout}, where it is contiguous in each call of the spec"
            yield name, call.with_cases(functools.partial(exchanged, case, other))


def exchanged(case: AnyCase, other: AnyCase, each: AnyCase) -> AnyCase:
    """``other`` for ``case``, each other one as it is: for :meth:`Call.with_cases`."""
    return other if each is case else each


def _varies(case: AnyCase) -> bool:
    """Whether another layout would show."""
    if isinstance(case, IndexCase) and case.order != "any":
        return False
    return isinstance(case, TensorCase | IndexCase) and math.prod(case.shape) > 1 and max(case.shape) > 1


def right_or_refused(cell: Cell, compare: Callable[[Cell, Call], object]) -> None:
    """Raises ``CheckFailed`` where the op takes an unasked call and gives something wrong."""
    for name, call in unasked_calls(cell):
        try:
            cell.refer(call)
        except CheckFailed:  # nothing says what is right
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
