"""A call with more rows than a grid has blocks in its second and third dimension."""

from __future__ import annotations

import time
from collections.abc import Callable

from trifold.spec import Call
from trifold.verification.calls import rows_of
from trifold.verification.cell import Cell

_ROWS = 65_537  # more than 16 bits can number
_PATIENCE = 10.0  # seconds


def with_many_rows(cell: Cell, test: Callable[[Call], object]) -> None:
    """Run ``test`` on such a call, if it takes no more than some seconds, estimated from fewer rows: on a CPU, threads
    that synchronize need a stack each."""
    many, few = (cell.call_of_rows(least, elements) for least, elements in ((_ROWS, 2**21), (500, 2**15)))
    if many is None or few is None:
        return
    began = time.perf_counter()
    cell.run_case(test, few, "some rows")
    if (time.perf_counter() - began) * rows_of(many) / rows_of(few) < _PATIENCE:
        cell.run_case(test, many, "many rows")
