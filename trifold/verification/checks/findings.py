"""What the execution engine finds in a kernel: races, reads of memory that nobody wrote, barriers that not all reach.

Each launch of a case, forward and backward, runs in several orders of its blocks and threads, with all checks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from trifold.findings import Finding, collect
from trifold.implementation import load_checked_port
from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import forward

_SCHEDULES = 4  # the natural order and three shuffled ones
_CALLS = 24  # drawn beside the fixed ones


def findings(cell: Cell) -> str | None:
    """Every finding of severity error fails its case; warnings and lints come back as the row's remark."""
    function, checks = _prototype(cell) if cell.kind == "prototype" else _port(cell)

    def test(call: Call) -> None:
        outputs = forward(cell, call, function).outputs
        torch.autograd.backward([output.sum() for output in outputs if output.requires_grad])

    with checks, collect() as found:
        cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
        for call in cell.spec.smooth:
            cell.run_case(test, call)
    return _remark(found)


def _prototype(cell: Cell) -> tuple[Callable[..., Any], AbstractContextManager[object]]:
    from trifold import simulator

    return cell.implementation.function, simulator.options(checks="all", lint=True, seed=0, schedules=_SCHEDULES)


def _port(cell: Cell) -> tuple[Callable[..., Any], AbstractContextManager[object]]:
    """The port, built once more: with checks."""
    from trifold.host import runtime

    checked = load_checked_port(cell.implementation.files)
    checked.kernels("cpu")
    return checked.function, runtime.schedules(_SCHEDULES)


def _remark(found: list[Finding]) -> str | None:
    """One sentence for each line of source that was warned of."""
    lines: dict[tuple[str, str, int], str] = {}
    for finding in found:
        if finding.severity == "error" or not finding.accesses:
            continue
        access = finding.accesses[0]
        lines.setdefault((finding.kind, access.file, access.line), finding.message.splitlines()[0])
    return "; ".join(lines.values()) or None
