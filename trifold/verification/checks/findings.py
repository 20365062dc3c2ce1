"""What the execution engine finds in a kernel, and whether results depend on the schedule. On a GPU, what
compute-sanitizer finds (:mod:`trifold.verification.checks.findings_on_gpu`).

Each case runs forward and backward with all checks under a shuffled schedule, and without checks in the natural order.
The first small call that launches a set of kernel instances also runs with checks in the natural order, and under two
other shuffled schedules. Results and gradients must have the same bits in each run, or be within the bound of
``values`` where the spec says that a sum has no order. The first run of a case records the bytes that kernels write,
for the row ``written``.
One call for each set of kernels is made once more, with another one between its launches
(:mod:`trifold.verification.checks.interleaving`).
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Collection, Iterable
from typing import Any

from trifold import places
from trifold.build.sources import chooses_paths, local_sources
from trifold.findings import Finding
from trifold.spec import Call
from trifold.verification.calls import FEW, FEW_SIMULATED
from trifold.verification.cell import Cell, Origins
from trifold.verification.checks.accepted import list_accepted
from trifold.verification.checks.agreement import Run, require_same
from trifold.verification.checks.findings_on_gpu import findings_on_gpu
from trifold.verification.checks.interleaving import Launched, require_apart
from trifold.verification.checks.origin import Recorded, form_with_checks
from trifold.verification.observations import Observations
from trifold.verification.outcomes import CheckFailed

_SHUFFLED = (1, 2, 3)  # seeds of schedules; 0 is the natural order
_CALLS = 16  # drawn calls, in addition to the fixed ones


def findings(cell: Cell) -> str | None:
    """A case fails by a finding of severity error, and by two kinds of warnings: of a barrier that some threads never
    reach, and of writes that leave the same value in any order.

    Findings that the user accepts (:mod:`trifold.acceptance`) are exempt, and listed in the row.
    """
    if cell.device == "cuda":
        return findings_on_gpu(cell)
    form = form_with_checks(cell)
    if cell.kind == "port":
        _require_one_text(cell)
    found = Found()
    unwritten: list[CheckFailed] = []

    def checked(call: Call, seed: int, *, record: bool) -> Run:
        with launched.by(call, cell.current[1]) if record else contextlib.nullcontext():
            recorded = Recorded.of(cell, call, form, seed, record=record)
        found.take(recorded.observed, call)
        if record and not unwritten:
            try:
                recorded.require_written(cell, call)
            except CheckFailed as error:
                unwritten.append(CheckFailed(error.message, call, cell.current[1]))
        return Run(tuple(output.detach() for output in recorded.made.outputs), recorded.grads)

    def test(call: Call) -> None:
        chosen = _one_of_them(call)
        first, natural = checked(call, chosen, record=True), Run.of(cell, call)
        try:
            _require_any_order(cell, call, natural, first, chosen)
        except CheckFailed:  # the order changes the bits, or the checks do
            _require_what_ships(cell, call, checked(call, 0, record=False), natural)
            raise
        if call.elements > few or launched.last in in_all_orders:
            return
        in_all_orders.add(launched.last)
        _require_what_ships(cell, call, checked(call, 0, record=False), natural)
        for seed in _SHUFFLED:
            if seed != chosen:
                _require_any_order(cell, call, natural, checked(call, seed, record=False), seed)

    few = FEW_SIMULATED if cell.simulated else FEW
    in_all_orders: set[frozenset[str]] = set()
    cell.process.load(build=True, form=form)
    launched = Launched(cell, form)
    cell.for_each_call(test, examples=min(_CALLS, cell.search.examples), fixed=cell.fixed_calls_of_one_dtype())
    for call in cell.small_calls():
        cell.run_case(test, call)
    require_apart(cell, form, launched.calls.values())
    cell.origins = Origins(cell.cases, frozenset(cell.dtypes), unwritten[0] if unwritten else None)
    cell.met = found.met
    # The row that runs a GPU's kernels reports acceptances that only these could meet.
    missed = [] if cell.kind == "port" and chooses_paths(cell.implementation.files.binding) else found.missed()
    return "; ".join([*found.accept(cell), *missed, *found.warnings()]) or None


class Found:
    """The engine's findings in the calls of a check."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._allowed: dict[str, dict[str, Any]] = {}

    def take(self, observed: Observations, call: Call) -> None:
        """Add those of one call. Raises ``CheckFailed`` for a warning about something that CUDA leaves undefined, if it
        is not accepted."""
        self._findings += observed.findings
        self._allowed.update({each["place"]: each for each in observed.allowed})
        _require_defined(observed.findings, call)

    @property
    def met(self) -> frozenset[str]:
        """The places of comments that accepted a finding."""
        return frozenset(finding.accepted_at for finding in self._findings if finding.accepted)

    def accept(self, cell: Cell) -> list[str]:
        """The findings that the user accepts, in words and in the cell's record."""
        return list_accepted(cell, self._findings)

    def missed(self, met: Collection[str] = ()) -> list[str]:
        """Comments that accepted nothing here and are not in ``met``."""
        allowed = (each for place, each in self._allowed.items() if place not in met)
        return [f"allowed, but did not occur: {each}" for each in places.unmet(self._findings, allowed)]

    def warnings(self) -> list[str]:
        """One sentence for each line of source with a warning."""
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
    """The seed of a shuffled schedule, which depends on the call and is the same in each run."""
    return _SHUFFLED[zlib.crc32(repr(call).encode()) % len(_SHUFFLED)]


# The macros that distinguish a build with checks from one without.
_NAMES_BUILD = re.compile(r"__SANITIZE_\w+|__has_feature|__tsan_\w+|cpu::checked|\btrifold_cpu_\w+")


def _require_what_ships(cell: Cell, call: Call, run: Run, natural: Run) -> None:
    """The checks do not change the results: ``run`` was made with them and ``natural`` without, in the same order."""
    where = ("with all checks", "without them")
    require_same(cell, call, run, natural, what="whether the kernels are checked", where=where)


def _require_any_order(cell: Cell, call: Call, natural: Run, run: Run, seed: int) -> None:
    """``run`` was made under the schedule of ``seed``."""
    where = ("in the natural order", f"in that of seed {seed}")
    require_same(cell, call, natural, run, what="the order of blocks and threads", where=where)


def _require_one_text(cell: Cell) -> None:
    """The checked kernels are those that ship: no source of the op tests for the checked build."""
    files = cell.implementation.files
    for path in local_sources(files.binding):
        if not path.is_relative_to(files.binding.resolve().parent):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if match := _NAMES_BUILD.search(line):
                raise CheckFailed(
                    f"{path.name}:{number} names {match[0]}, which distinguishes a build with checks from "
                    "the one that ships: what is checked must be what ships"
                )


def _require_defined(found: Iterable[Finding], call: Call) -> None:
    """No kernel may rely on what hardware does and CUDA leaves undefined, for which the engine only warns.

    Volta and later wait only for the threads that have not exited; a race of writes has a defined result if all write
    the same value.
    """
    for finding in found:
        writes = finding.kind == "race" and all(access.operation == "write" for access in finding.accesses)
        if (finding.kind == "barrier divergence" or writes) and not finding.accepted:
            raise CheckFailed(str(finding), call, findings=(finding,))
