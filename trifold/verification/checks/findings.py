"""What the execution engine finds in a kernel: races, reads of memory that nobody wrote, barriers that not all reach.

Each launch of a case, forward and backward, runs in several orders of its blocks and threads, with all checks.
"""

from __future__ import annotations

from trifold.findings import Finding, collect
from trifold.spec import Call
from trifold.verification.cell import Cell, NotRun
from trifold.verification.checks.differentiation import forward

_SCHEDULES = 4  # the natural order and three shuffled ones
_CALLS = 24  # drawn beside the fixed ones


def findings(cell: Cell) -> str | None:
    """Every finding of severity error fails its case; warnings and lints come back as the row's remark."""
    if cell.kind == "port":
        raise NotRun("the port's C++ runs on the CPU without the engine's checks")
    from trifold import simulator

    def test(call: Call) -> None:
        cell.invoke(call)

    with simulator.options(checks="all", lint=True, seed=0, schedules=_SCHEDULES), collect() as found:
        cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
        for call in cell.spec.smooth:
            cell.run_case(lambda call: forward(cell, call, cell.implementation.function).values_and_gradients(), call)
    return _remark(found)


def _remark(found: list[Finding]) -> str | None:
    """One sentence for each line of source that was warned of."""
    lines: dict[tuple[str, str, int], str] = {}
    for finding in found:
        if finding.severity == "error" or not finding.accesses:
            continue
        access = finding.accesses[0]
        lines.setdefault((finding.kind, access.file, access.line), finding.message.splitlines()[0])
    return "; ".join(lines.values()) or None
