"""What the execution engine finds in a kernel, and whether the order of blocks and threads shows in the results.

Each case, forward and backward, runs with all checks in several orders: the natural one and shuffled ones. Its results
and gradients must be the same bits in each; within the bound of ``values`` where the spec says that a sum has no order.
Which bytes the kernels wrote is recorded in the natural order, for the row ``written``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from trifold.build.sources import local_sources
from trifold.findings import Finding
from trifold.spec import Call
from trifold.verification.cell import Cell, CheckFailed, Origins
from trifold.verification.checks.differentiation import same_gradients, unit_upstream_gradient
from trifold.verification.checks.origin import Recorded, form_with_checks
from trifold.verification.comparison import same_values
from trifold.verification.tolerance import same_bits

_SCHEDULES = 4  # the natural order and three shuffled ones
_FEW = 2048  # elements; calls of more run in the natural order and one other
_CALLS = 16  # drawn beside the fixed ones


def findings(cell: Cell) -> str | None:
    """Every finding of severity error fails its case, and so does a barrier that some threads never reach."""
    form = form_with_checks(cell)
    if cell.kind == "port":
        _require_one_text(cell)
    found: list[Finding] = []
    unwritten: list[CheckFailed] = []

    def test(call: Call) -> None:
        first: _Run | None = None
        for seed in range(_SCHEDULES if call.elements <= _FEW else 2):
            recorded = Recorded.of(cell, call, form, seed)
            found.extend(recorded.told.findings)
            _require_whole_barriers(recorded.told.findings, call)
            if seed == 0 and not unwritten:
                try:
                    recorded.require_written(cell, call)
                except CheckFailed as error:
                    unwritten.append(CheckFailed(error.message, call, cell.current[1]))
            run = _Run(tuple(output.detach() for output in recorded.made.outputs), recorded.grads)
            first = first or run
            _require_same(cell, call, first, run, seed)

    cell.process.load(build=True, form=form)
    cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
    for call in cell.small_calls():
        cell.run_case(test, call)
    cell.origins = Origins(cell.cases, frozenset(cell.dtypes), unwritten[0] if unwritten else None)
    return _remark(found)


# What tells a build with checks from one without.
_TELLS_BUILDS = re.compile(r"__SANITIZE_\w+|__has_feature|__tsan_\w+|host::checked|\btrifold_host_\w+")


def _require_one_text(cell: Cell) -> None:
    """The kernels that are checked are those that ship: no source of the op asks which build it is in."""
    files = cell.implementation.files
    for path in local_sources(files.binding):
        if not path.is_relative_to(files.binding.resolve().parent):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if match := _TELLS_BUILDS.search(line):
                raise CheckFailed(
                    f"{path.name}:{number} names {match[0]}, which tells a build with checks from the one that "
                    "ships: what is checked must be what ships"
                )


@dataclass(frozen=True)
class _Run:
    """What one order of blocks and threads gave: results, and the gradient of their sum for each argument."""

    results: tuple[Tensor, ...]
    grads: tuple[Tensor | None, ...]


def _require_same(cell: Cell, call: Call, first: _Run, run: _Run, seed: int) -> None:
    paths, outer = cell.gradient_paths(call), unit_upstream_gradient
    if same_values(cell, call, first.results, run.results) and same_gradients(
        cell, call, paths, first.grads, run.grads, outer
    ):
        return
    if cell.spec.unordered:
        raise CheckFailed(f"in the order of seed {seed}, results or gradients are beyond the bound", call)
    results = [(cell.name_of_result(n, run.results), n) for n in range(len(run.results))]
    pairs = [(name, first.results[n], run.results[n]) for name, n in results]
    grads = zip(paths, first.grads, run.grads, strict=True)
    pairs += [(f"the gradient of {cell.name(path)}", a, b) for path, a, b in grads if a is not None and b is not None]
    for name, a, b in pairs:
        if not same_bits(a, b):
            index = int((a != b).flatten().int().argmax())
            at_a, at_b = (t.flatten()[index].item() for t in (a, b))
            raise CheckFailed(
                f"the order of blocks and threads shows in {name}: element {index} is {at_a!r} in the natural order "
                f"and {at_b!r} in that of seed {seed}; where a sum has no order by intention, say so: "
                "Spec(unordered=...)",
                call,
            )
    raise CheckFailed(f"in the order of seed {seed}, other arguments have a gradient than in the natural order", call)


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
