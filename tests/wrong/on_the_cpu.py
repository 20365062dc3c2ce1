"""The CPU checks' reports on a fault in the row code: which findings, at which lines, under how many schedules.

A fault is *found* if most seeds show it: by a finding (an error or a warning that is not accepted), or by a result or a
gradient outside the tolerance. The verdict is the first of these precisions that most seeds reach:

- *by its line*: the finding names a line of the edit: one that the edit wrote or, if it removed some, the lines before
and after;
- *by its function*: a line of a function that contains the edit;
- *by its accesses*: a line in the entry's ``at``: of an access that the edit makes unordered, early or out of bounds,
or of a wait that never ends.

A finding names the lines of its accesses and all lines in its message: both sides of a race, the start of a copy, a
barrier, what a thread waits for, and the calls that led there.
"""

from __future__ import annotations

import difflib
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.wrong.entry import GALLERY, File
from tests.wrong.fault import Fault, Pass
from tests.wrong.few_dtypes import dtypes_of, of_dtypes
from tests.wrong.few_kernels import built, cell_of, of_kernels
from trifold.build.cuda_source import parse, walk
from trifold.build.sources import INCLUDE_ROOT
from trifold.cpu import runtime
from trifold.errors import LaunchError
from trifold.findings import Finding, KernelFault, KernelWarning, collect
from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import RightGradients, differentiate
from trifold.verification.checks.values import compare
from trifold.verification.outcomes import CheckFailed
from trifold.workspace import OpFiles, Workspace

#: The most precise first.
VERDICTS = ("by its line", "by its function", "by its accesses", "found", "not found")

#: Of processor time, for a kernel that waits forever without a deadlock that the engine detects.
KERNEL_SECONDS = 30.0
_PLACE = re.compile(r"([\w.]+\.cuh?):(\d+)")

Line = tuple[str, int]  # a file's name without its folder, and a line number


@dataclass(frozen=True)
class Planted:
    """The places of a fault: the lines that its edits changed, those of the functions around these, and those of
    ``at``."""

    lines: frozenset[Line]
    functions: frozenset[Line]
    accesses: frozenset[Line]

    @classmethod
    def of(cls, fault: Fault, root: Path) -> Planted:
        """The places of a fault that is written into ``root``."""
        lines: set[Line] = set()
        functions: set[Line] = set()
        ours, theirs = GALLERY.op(fault.op), Workspace.at(root).files(fault.op)
        for name in {edit.file for edit in fault.edits}:
            before, after = _text(ours, name), _text(theirs, name)
            changed = set(_changed(before.splitlines(), after.splitlines()))
            lines |= {(_path(theirs, name).name, number) for number in changed}
            functions |= {
                (_path(theirs, name).name, number)
                for function in _functions(after)
                if not changed.isdisjoint(function)
                for number in function
            }
        accesses = {(_path(theirs, name).name, _only_line(_text(theirs, name), part)) for name, part in fault.at}
        return cls(frozenset(lines), frozenset(functions), frozenset(accesses))

    def named_by(self, seen: Seen) -> list[str]:
        """The precisions with which the findings of a schedule name the fault."""
        named = set().union(*map(places, seen.findings))
        holds = (
            not self.lines.isdisjoint(named),
            not self.functions.isdisjoint(named),
            not self.accesses.isdisjoint(named),
            bool(seen),
        )
        return [verdict for verdict, one in zip(VERDICTS, holds, strict=False) if one]


def _path(files: OpFiles, name: File) -> Path:
    """A file of an op, or a header of trifold, of which an edited copy is next to the binding."""
    if "/" not in name:
        path: Path = getattr(files, name)
        return path
    edited = files.binding.parent / name
    return edited if edited.exists() else INCLUDE_ROOT / name


def _text(files: OpFiles, name: File) -> str:
    return _path(files, name).read_text(encoding="utf-8")


def _only_line(text: str, part: str) -> int:
    """The number, from 1, of the only line that contains this part."""
    (number,) = (number for number, line in enumerate(text.splitlines(), 1) if part in line)
    return number


def _changed(before: list[str], after: list[str]) -> Iterator[int]:
    """The numbers, from 1, of the lines of ``after`` that differ; both adjacent lines where some were removed."""
    for what, _, _, begin, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if what == "delete":
            yield from (begin, begin + 1)
        elif what != "equal":
            yield from range(begin + 1, end + 1)


def _functions(text: str) -> Iterator[range]:
    for node in walk(parse(text.encode())):
        if node.type == "function_definition":
            yield range(node.start_point[0] + 1, node.end_point[0] + 2)


def places(finding: Finding) -> set[Line]:
    """The lines that a finding names."""
    of_accesses = {(Path(access.file).name, access.line) for access in finding.accesses if access.file}
    return of_accesses | {(name, int(number)) for name, number in _PLACE.findall(finding.message)}


@dataclass(frozen=True)
class Seen:
    """The outcome of a schedule: findings, or what is wrong with a result, or an error that is neither ("" if none)."""

    findings: tuple[Finding, ...]
    wrong: str = ""
    error: str = ""

    def __bool__(self) -> bool:
        return bool(self.findings or self.wrong)


def look(cell: Cell, call: Call, in_pass: Pass, seed: int) -> Seen:
    """Make the call under the schedule of a seed; compares its results or, for the backward pass, its gradients."""
    wrong = error = ""
    require: Callable[[Cell, Call], object] = compare if in_pass == "forward" else _compare_gradients
    with warnings.catch_warnings(), collect() as found, runtime.schedules(1, seed=seed):
        warnings.simplefilter("ignore", KernelWarning)
        try:
            require(cell, call)
        except CheckFailed as failure:
            wrong = str(failure)
        except KernelFault:
            pass  # recorded already
        except (LaunchError, RuntimeError) as failure:
            error = f"{type(failure).__name__}: {failure}"
    return Seen(tuple(one for one in found if one.severity != "lint" and not one.accepted), wrong, error)


def _compare_gradients(cell: Cell, call: Call) -> None:
    paths = tuple(cell.gradient_paths(call))
    grads = differentiate(cell, call, paths, cell.implementation.function).grads
    right = RightGradients.of(cell, call, paths)
    for path, grad in zip(paths, grads, strict=True):
        problem = "there is none" if grad is None else right.wrong(path, grad)
        if problem is not None:
            raise CheckFailed(f"the gradient of {cell.name(path)}: {problem}", call)


@dataclass(frozen=True)
class Report:
    """The outcome of all schedules for a fault.

    Attributes:
        verdict: see the module.
        seeds: the number of schedules.
        named: the number of schedules with each precision.
        ways: the number of schedules with each kind of finding and lines of its accesses; or with wrong ``values``.
        errors: of other kinds, which do not count.
        message: of the first finding, or what is wrong with a result.
    """

    verdict: str
    seeds: int
    named: dict[str, int]
    ways: dict[str, int]
    errors: dict[str, int]
    message: str

    @classmethod
    def of(cls, planted: Planted, seen: Collection[Seen]) -> Report:
        named = Counter(verdict for one in seen for verdict in planted.named_by(one))
        verdict = next((each for each in VERDICTS if 2 * named[each] > len(seen)), "not found")
        ways = Counter(way for one in seen for way in {*map(_way, one.findings), *(["values"] if one.wrong else [])})
        first = next((one for one in seen if one), Seen(()))
        message = first.findings[0].message if first.findings else first.wrong
        errors = Counter(one.error for one in seen if one.error)
        return cls(verdict, len(seen), dict(named), dict(ways), dict(errors), message)


def _way(finding: Finding) -> str:
    of_accesses = (
        f"{one.instruction or one.operation} at {Path(one.file).name}:{one.line}" for one in finding.accesses
    )
    return f"{finding.kind} ({finding.severity}): {', '.join(dict.fromkeys(of_accesses))}"


def report(fault: Fault, kernels: Collection[str], root: Path, seeds: int) -> Report:
    """Run a fault under this many schedules.

    Args:
        kernels: those that its call launches (:mod:`tests.wrong.few_kernels`).
        root: where the faulty op is written.
    """
    edits = (*fault.edits, *of_dtypes(dtypes_of([fault.cpu_call])), *of_kernels(kernels))
    cell = cell_of(built(fault.op, edits, root))
    with runtime.time_limit(KERNEL_SECONDS):
        seen = [look(cell, fault.cpu_call, fault.in_pass, seed) for seed in range(seeds)]
    return Report.of(Planted.of(fault, root), seen)


def of_fault(fault: Fault, kernels: frozenset[str], seeds: int) -> dict[str, Any]:
    """A report as a line of JSON."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trifold-fault-") as folder:
        said = report(fault, kernels, Path(folder), seeds)
    return {
        "entry": str(fault),
        "kind": fault.kind,
        "pass": fault.in_pass,
        **asdict(said),
        "as expected": said.verdict != "not found",
        "seconds": round(time.monotonic() - started, 1),
    }


def of_right(op: str, faults: Sequence[Fault], kernels: Sequence[frozenset[str]], seeds: int) -> dict[str, Any]:
    """The line of the unchanged op: nothing may be found in the calls of its faults."""
    started = time.monotonic()
    calls = {(repr(one.cpu_call), one.in_pass): (one.cpu_call, one.in_pass) for one in faults}
    edits = (*of_dtypes(dtypes_of(call for call, _ in calls.values())), *of_kernels(frozenset().union(*kernels)))
    with tempfile.TemporaryDirectory(prefix="trifold-right-") as folder:
        cell = cell_of(built(op, edits, Path(folder)))
        with runtime.time_limit(KERNEL_SECONDS):
            seen = [look(cell, *run, seed) for run in calls.values() for seed in range(seeds)]
    said = {line for one in seen for line in (*map(_way, one.findings), one.wrong, one.error) if line}
    return {
        "entry": f"{op} as it is",
        "calls": len(calls),
        "seeds": seeds,
        "said": sorted(said),
        "as expected": not said,
        "seconds": round(time.monotonic() - started, 1),
    }
