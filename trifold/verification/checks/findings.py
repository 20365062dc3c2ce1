"""What the execution engine finds in a kernel, and whether the order of blocks and threads shows in the results.

Each case, forward and backward, runs with all checks in several orders: the natural one and shuffled ones. Its results
and gradients must be the same bits in each; within the bound of ``values`` where the spec says that a sum has no order.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from trifold.findings import Finding
from trifold.spec import Call
from trifold.verification.cell import Cell, CheckFailed, as_tuple
from trifold.verification.checks.differentiation import forward
from trifold.verification.checks.values import compare
from trifold.verification.tolerance import same_bits

_SCHEDULES = 4  # the natural order and three shuffled ones
_FEW = 4096  # elements; calls of more run in the natural order and one other
_CALLS = 24  # drawn beside the fixed ones


def findings(cell: Cell) -> str | None:
    """Every finding of severity error fails its case, and so does a barrier that some threads never reach."""
    form = "plain" if cell.kind == "prototype" else "checked"
    found: list[Finding] = []

    def test(call: Call) -> None:
        first: list[Tensor] | None = None
        for seed in range(_SCHEDULES if call.elements <= _FEW else 2):
            with cell.process.running(form=form, schedules=(seed, 1)) as told:
                values = _forward_and_backward(cell, call)
            found.extend(told.findings)
            _require_whole_barriers(told.findings, call)
            if first is None:
                first = values
            elif cell.spec.unordered:
                compare(cell, call, tuple(values[: _count(cell, call)]))
            else:
                _require_same(first, values, seed, call)

    cell.process.load(build=True, form=form)
    cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
    for call in cell.spec.smooth:
        cell.run_case(test, call)
    return _remark(found)


def _forward_and_backward(cell: Cell, call: Call) -> list[Tensor]:
    made = forward(cell, call, cell.implementation.function)
    outputs = [output for output in made.outputs if output.requires_grad]
    results = [output.detach() for output in made.outputs]
    if not outputs or not made.inputs:
        return results
    grads = torch.autograd.grad([output.sum() for output in outputs], made.inputs, allow_unused=True)
    return results + [grad for grad in grads if grad is not None]


def _count(cell: Cell, call: Call) -> int:
    return len(as_tuple(cell.refer(call)))


def _require_same(first: list[Tensor], values: list[Tensor], seed: int, call: Call) -> None:
    for number, (a, b) in enumerate(zip(first, values, strict=True)):
        if not same_bits(a, b):
            index = int((a != b).flatten().int().argmax())
            raise CheckFailed(
                f"the order of blocks and threads shows in result or gradient {number}: element {index} is "
                f"{float(a.flatten()[index])!r} in the natural order and {float(b.flatten()[index])!r} in that of seed "
                f"{seed}; where a sum has no order by intention, say so: Spec(unordered=...)",
                call,
            )


def _require_whole_barriers(found: Iterable[Finding], call: Call) -> None:
    """A warning of the engine, since Volta waits for the threads that are left; no kernel may rely on that."""
    for finding in found:
        if finding.kind == "barrier divergence":
            raise CheckFailed(str(finding), call, findings=(finding,))


def _remark(found: list[Finding]) -> str | None:
    """One sentence for each line of source that was warned of."""
    lines: dict[tuple[str, str, int], str] = {}
    for finding in found:
        if finding.severity == "error" or not finding.accesses:
            continue
        access = finding.accesses[0]
        lines.setdefault((finding.kind, access.file, access.line), finding.message.splitlines()[0])
    return "; ".join(lines.values()) or None
