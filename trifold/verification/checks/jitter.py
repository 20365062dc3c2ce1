"""A port whose threads pause at random: before and after barriers, waits, arrivals, fences, copies and atomics.

It shows races that a GPU's usual timing hides, such as a warp that is late or a block that runs ahead. With a seed,
pauses are long in some warps, blocks and lanes and rare in the others; without one there are none.
"""

from __future__ import annotations

from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.agreement import Run, require_same
from trifold.verification.checks.instances import launching_calls
from trifold.verification.outcomes import Absence, NotRun

FORM = "jittered"
_SEEDS = 6  # for the calls that launch every kernel instance
_OTHERS = 1  # for all other calls


def jitter(cell: Cell) -> None:
    """Results and gradients of fixed and small calls are the same with the pauses of each seed as without pauses."""
    if cell.kind == "prototype":
        raise NotRun(Absence.NO_BUILD)
    cell.process.load(build=True, form=FORM)
    of_instances = launching_calls(cell)
    chosen = [call for _, call in of_instances]

    def test(call: Call) -> None:
        first = _run(cell, call, 0)
        for seed in range(1, 1 + (_SEEDS if call in chosen else _OTHERS)):
            where = ("without pauses", f"with those of seed {seed}")
            require_same(cell, call, first, _run(cell, call, seed), what="the time that threads take", where=where)

    others = [*cell.fixed_calls(), *(("small", call) for call in cell.small_calls())]
    for name, call in [*of_instances, *((name, call) for name, call in others if call not in chosen)]:
        cell.run_case(test, call, name)


def _run(cell: Cell, call: Call, seed: int) -> Run:
    with cell.process.running(form=FORM, jitter=seed):
        return Run.of(cell, call)
