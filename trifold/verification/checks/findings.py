"""What the execution engine finds in a kernel, and whether the order of blocks and threads shows in the results; on a
GPU what compute-sanitizer finds (:mod:`trifold.verification.checks.findings_on_gpu`).

Each case, forward and backward, runs with all checks in several orders: the natural one, and three shuffled ones or, of
a drawn call and of a large one, one of these. Its results and gradients must be the same bits in each; within the bound
of ``values`` where the spec says that a sum has no order.
Which bytes the kernels wrote is recorded in the natural order, for the row ``written``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from trifold import places
from trifold.build.sources import chooses_paths, local_sources
from trifold.findings import Finding
from trifold.spec import Call
from trifold.verification.cell import Cell, Origins
from trifold.verification.checks.agreement import Run, require_same
from trifold.verification.checks.findings_on_gpu import findings_on_gpu
from trifold.verification.checks.origin import Recorded, form_with_checks
from trifold.verification.observations import Observations
from trifold.verification.outcomes import CheckFailed

_SHUFFLED = (1, 2, 3)  # seeds of orders; 0 is the natural one
_FEW = 2048  # elements; calls of more run in one shuffled order
_CALLS = 16  # drawn beside the fixed ones


def findings(cell: Cell) -> str | None:
    """Every finding of severity error fails its case, and so do the warnings of a barrier that some threads never reach
    and of writes that leave the same value in any order; but for those that the user accepts
    (:mod:`trifold.acceptance`), which the row lists."""
    if cell.device == "cuda":
        return findings_on_gpu(cell)
    form = form_with_checks(cell)
    if cell.kind == "port":
        _require_one_text(cell)
    found = Found()
    unwritten: list[CheckFailed] = []

    def test(call: Call, shuffled: Sequence[int]) -> None:
        first: Run | None = None
        for seed in (0, *shuffled):
            recorded = Recorded.of(cell, call, form, seed)
            found.take(recorded.observed, call)
            if seed == 0 and not unwritten:
                try:
                    recorded.require_written(cell, call)
                except CheckFailed as error:
                    unwritten.append(CheckFailed(error.message, call, cell.current[1]))
            run = Run(tuple(output.detach() for output in recorded.made.outputs), recorded.grads)
            if first is None:
                _require_what_ships(cell, call, run)
            first = first or run
            where = ("in the natural order", f"in that of seed {seed}")
            require_same(cell, call, first, run, what="the order of blocks and threads", where=where)

    def in_all(call: Call) -> None:
        test(call, _SHUFFLED if call.elements <= _FEW else (_one_of_them(call),))

    cell.process.load(build=True, form=form)
    cell.for_each_call(in_all, examples=0)
    cell.for_each_call(
        lambda call: test(call, (_one_of_them(call),)), examples=min(_CALLS, cell.search.examples), fixed=False
    )
    for call in cell.small_calls():
        cell.run_case(in_all, call)
    cell.origins = Origins(cell.cases, frozenset(cell.dtypes), unwritten[0] if unwritten else None)
    cell.met = found.met
    # What a GPU's kernels alone may meet is for the row that runs these to miss.
    missed = [] if cell.kind == "port" and chooses_paths(cell.implementation.files.binding) else found.missed()
    return "; ".join([*found.accept(cell), *missed, *found.warnings()]) or None


class Found:
    """What the engine found in the calls of a check."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._allowed: dict[str, dict[str, Any]] = {}

    def take(self, observed: Observations, call: Call) -> None:
        """Of one call. Raises ``CheckFailed`` where a warning is of what CUDA leaves undefined, and is not accepted."""
        self._findings += observed.findings
        self._allowed.update({each["place"]: each for each in observed.allowed})
        _require_defined(observed.findings, call)

    @property
    def met(self) -> frozenset[str]:
        """The places of comments that accepted a finding."""
        return frozenset(finding.accepted_at for finding in self._findings if finding.accepted)

    def accept(self, cell: Cell) -> list[str]:
        """What the user accepts, in words and in the cell's record."""
        accepted = places.merged(finding for finding in self._findings if finding.accepted)
        cell.accepted = tuple(
            {
                "finding": f"{finding.kind} on {finding.array} in {finding.kernel} at {places.lines_of(finding)}",
                "count": finding.count,
                "place": finding.accepted_at,
                "reason": finding.accepted,
            }
            for finding in accepted
        )
        return [places.accepted(finding) for finding in accepted]

    def missed(self, met: Collection[str] = ()) -> list[str]:
        """Comments that accepted nothing, but for those that were ``met`` elsewhere."""
        allowed = (each for place, each in self._allowed.items() if place not in met)
        return [f"allowed, but did not occur: {each}" for each in places.unmet(self._findings, allowed)]

    def warnings(self) -> list[str]:
        """One sentence for each line of source that was warned of."""
        lines: dict[tuple[str, str, int], str] = {}
        for finding in self._findings:
            if finding.severity == "error" or finding.accepted or not finding.accesses:
                continue
            if (finding.kind, finding.severity) == ("does not compile", "lint"):
                continue  # numba-cuda compiles it, which is what verifies the cuda cell
            access = finding.accesses[0]
            lines.setdefault((finding.kind, access.file, access.line), finding.message.splitlines()[0])
        return list(lines.values())


def _one_of_them(call: Call) -> int:
    """A shuffled order: another one for another call, the same for the same one."""
    return _SHUFFLED[zlib.crc32(repr(call).encode()) % len(_SHUFFLED)]


# What distinguishes a build with checks from one without.
_TELLS_BUILDS = re.compile(r"__SANITIZE_\w+|__has_feature|__tsan_\w+|host::checked|\btrifold_host_\w+")


def _require_what_ships(cell: Cell, call: Call, run: Run) -> None:
    """Without checks a call gives the same bits: what was checked is what runs otherwise."""
    where = ("with all checks", "without them")
    require_same(cell, call, run, Run.of(cell, call), what="whether the kernels are checked", where=where)


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


def _require_defined(found: Iterable[Finding], call: Call) -> None:
    """No kernel that ships may rely on what hardware does and CUDA leaves undefined, of which the engine only warns:
    Volta waits for the threads that are left; and a race of writes ends with the same value where all write that."""
    for finding in found:
        writes = finding.kind == "race" and all(access.operation == "write" for access in finding.accesses)
        if (finding.kind == "barrier divergence" or writes) and not finding.accepted:
            raise CheckFailed(str(finding), call, findings=(finding,))
