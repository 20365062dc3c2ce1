"""A table of compute-sanitizer's and the CPU checks' findings in the kernels of the catalogue."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cpu.catalogue.gpu import FOLDER, compile_with_nvcc
from tests.cpu.catalogue.launcher import CpuKernel, Start
from tests.cpu.catalogue.native import Native
from tests.cpu.catalogue.tape import Tape
from tests.cpu.catalogue.twins import Twin
from trifold import compute_sanitizer
from trifold.compute_sanitizer import ToolRun
from trifold.findings import Finding

# A launch takes milliseconds, and starting a process under a tool some seconds: a kernel that has not ended after this
# time waits forever. A process that several kernels share ends itself then, with an exit status that says which kernel
# it was; its own limit is for a tool that hangs.
TIME_LIMIT_S = 30.0
GROUP_LIMIT_S = 300.0
MOST_IN_A_GROUP = 27
_OVERDUE = 100  # replay.cu: the status is this plus the tape's position

# The tool of compute-sanitizer that finds mistakes of a kind, if there is one.
_TOOL = {
    "race": "racecheck",
    "out-of-bounds": "memcheck",
    "misaligned": "memcheck",
    "uninitialised read": "initcheck",
    "barrier divergence": "synccheck",
    "warp divergence": "synccheck",
    "deadlock": "synccheck",
}

# A kernel in which the tool finds a mistake ends, and the program goes on to the next one.
_GO_ON = {"memcheck": ("--destroy-on-device-error=kernel",), "initcheck": ("--destroy-on-device-error=kernel",)}


@dataclass(frozen=True)
class Subject:
    """A kernel, right or wrong.

    Attributes:
        mistake: its kind; empty for a right kernel.
        beyond: why the checks on the CPU do not detect its mistake; empty if they do.
        group: kernels of one group share a process under the tools for their mistake, where they neither hang nor end
            the process; empty: it has its own.
        more, run: as in the catalogue's cases.
    """

    name: str
    kernels: str
    mistake: str
    beyond: str
    more: Callable[..., tuple[int, ...]]
    run: Callable[[Any], object]
    group: str

    @property
    def wrong(self) -> bool:
        return bool(self.mistake)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that may find its mistake; all for a right kernel, and for a kind of mistake without a tool."""
        return (_TOOL[self.mistake],) if self.mistake in _TOOL else compute_sanitizer.TOOLS

    def tape(self) -> str:
        """Its launches; ``run`` would compare results, which are not computed here."""
        tape = Tape(self.kernels, self.more)
        with contextlib.suppress(AssertionError):
            self.run(tape)
        return "\n".join(tape.lines) + "\n"

    def kernel(self, start: Start) -> CpuKernel:
        return CpuKernel(start, self.kernels, self.more)


@dataclass(frozen=True)
class Row:
    """The findings in one kernel.

    Attributes:
        cpu: of the checks on the CPU.
        gpu: of each tool of compute-sanitizer.
        stopped: what the tools report besides findings, such as a trap that nvcc inserted where it detected the error.
        did_not_end: the tools under which it waited forever.
    """

    subject: Subject
    cpu: tuple[Finding, ...]
    gpu: dict[str, tuple[Finding, ...]]
    stopped: tuple[str, ...] = ()
    did_not_end: tuple[str, ...] = ()

    @property
    def found_on_gpu(self) -> tuple[object, ...]:
        return (*(finding for findings in self.gpu.values() for finding in findings), *self.stopped)

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.subject.name,
            "wrong": self.subject.wrong,
            "cpu": _told(self.cpu),
            "compute-sanitizer": {tool: _told(findings) for tool, findings in self.gpu.items() if findings},
            "stopped": list(self.stopped),
            "did not end": list(self.did_not_end),
        }


def subject_of(case: Twin | Native, more: Callable[..., tuple[int, ...]]) -> Subject:
    if isinstance(case, Twin):
        mistake = "" if case.case.expected is None else case.case.expected.kind
        return Subject(str(case), case.qualified, mistake, "", case.more, case.case.run, group_of(mistake))
    mistake = case.found.kind if case.found is not None else "beyond the checks on the CPU" if case.reason else ""
    return Subject(str(case), case.qualified, mistake, case.reason, more, case.run, group_of(mistake))


def group_of(mistake: str) -> str:
    """Right kernels share a process, and so do those whose mistake does not keep later kernels from running: memcheck
    ends a kernel that accesses memory out of bounds, and no more (``_GO_ON``)."""
    shared = {"": "right", "race": "race", "uninitialised read": "uninitialised"}
    return shared.get(mistake, "memory" if _TOOL.get(mistake) == "memcheck" else "")


def on_gpu(
    subjects: Iterable[Subject],
    folder: Path,
    sources: Path = FOLDER,
    *,
    limit_s: float = TIME_LIMIT_S,
    every_tool: bool = False,
) -> dict[str, list[ToolRun]]:
    """The runs of each subject under its tools, by its name.

    If a kernel of a group hangs, it is run again alone, and the others without it. If a group crashes, each of its
    kernels is run again in a separate process.

    Args:
        folder: where the program and the tapes are written.
        sources: the folder of replay.cu and start.cuh, and of the entries.cuh that has the kernels.
        limit_s: the time that one kernel may take.
        every_tool: run each subject under all tools.
    """
    program = folder / "replay"
    compile_with_nvcc(sources / "replay.cu", program)
    sanitizer = compute_sanitizer.find()
    tapes: dict[str, str] = {}
    groups: dict[tuple[str, str], list[str]] = {}
    for number, subject in enumerate(subjects):
        tape = folder / f"{number}.tape"
        tape.write_text(subject.tape(), encoding="utf-8")
        tapes[subject.name] = str(tape)
        for tool in compute_sanitizer.TOOLS if every_tool else subject.tools:
            shared = subject.group if tool in subject.tools else ""
            groups.setdefault((tool, shared or subject.name), []).append(subject.name)

    def run(job: tuple[str, Sequence[str]]) -> ToolRun:
        tool, names = job
        alone = len(names) == 1  # then it is killed, which the result says
        limit, of_tape = (limit_s, float("inf")) if alone else (GROUP_LIMIT_S, limit_s)
        command = [str(program), str(of_tape), *(tapes[name] for name in names)]
        no = subprocess.DEVNULL
        options = () if alone else _GO_ON.get(tool, ())
        return compute_sanitizer.run(
            sanitizer, tool, command, options=options, timeout=limit, stdin=no, stdout=no, stderr=no
        )

    runs: dict[str, list[ToolRun]] = {name: [] for name in tapes}
    jobs: list[tuple[str, Sequence[str]]] = [
        (tool, names[first : first + MOST_IN_A_GROUP])
        for (tool, _), names in groups.items()
        for first in range(0, len(names), MOST_IN_A_GROUP)
    ]
    with ThreadPoolExecutor(min(12, os.cpu_count() or 1)) as pool:
        while jobs:
            again = []
            for (tool, names), result in zip(jobs, pool.map(run, jobs), strict=True):
                if len(names) > 1 and (result.status != 0 or not result.in_time):
                    again += [(tool, part) for part in _parts(names, result.status)]
                else:
                    for name in names:
                        runs[name].append(result)
            jobs = again
    return runs


def _parts(names: Sequence[str], status: int) -> list[Sequence[str]]:
    """The kernels that run together when a group is run again which ended with ``status``.

    >>> _parts(["a", "b", "c"], 101)
    [['b'], ['a', 'c']]
    >>> _parts(["a", "b"], 1)
    [['a'], ['b']]
    """
    overdue = status - _OVERDUE
    if 0 <= overdue < len(names):
        return [[names[overdue]], [*names[:overdue], *names[overdue + 1 :]]]
    return [[name] for name in names]


def row_of(subject: Subject, cpu: Iterable[Finding], runs: list[ToolRun]) -> Row:
    """The reports of ``runs`` on one subject; in a process of several kernels, a finding is assigned by the kernel's
    name."""
    names = set(subject.kernels.split())
    gpu = {run.tool: tuple(each for each in run.report.findings if each.kernel in names) for run in runs}
    problems = (problem for run in runs for problem in run.report.problems if any(name in problem for name in names))
    late = (run.tool for run in runs if not run.in_time)
    return Row(subject, tuple(cpu), gpu, tuple(dict.fromkeys(problems)), tuple(late))


def table(rows: Iterable[Row]) -> dict[str, Any]:
    """The rows as plain data, and how many wrong kernels each of the two finds."""
    rows = list(rows)
    wrong = [row for row in rows if row.subject.wrong]
    kinds: dict[str, Counter[str]] = {}
    for row in wrong:
        mistake = next(iter(_told(row.cpu)), row.subject.mistake)
        counts = kinds.setdefault(mistake, Counter())
        counts["wrong kernels"] += 1
        counts["cpu"] += bool(row.cpu)
        counts["compute-sanitizer"] += bool(row.found_on_gpu)
    return {
        "wrong kernels": len(wrong),
        "found by both": sum(bool(row.cpu and row.found_on_gpu) for row in wrong),
        "found by cpu alone": sum(bool(row.cpu and not row.found_on_gpu) for row in wrong),
        "found by compute-sanitizer alone": sum(bool(row.found_on_gpu and not row.cpu) for row in wrong),
        "found by neither": sum(not row.cpu and not row.found_on_gpu for row in wrong),
        "right kernels": len(rows) - len(wrong),
        "false alarms of cpu": sum(bool(row.cpu) for row in rows if not row.subject.wrong),
        "false alarms of compute-sanitizer": sum(bool(row.found_on_gpu) for row in rows if not row.subject.wrong),
        "by mistake": {mistake: dict(counts) for mistake, counts in sorted(kinds.items())},
        "kernels": [row.to_json() for row in rows],
    }


def _told(findings: Iterable[Finding]) -> list[str]:
    """The distinct findings: kind, memory, and whether each is only a warning."""
    texts = (
        f"{finding.kind}{f' of {finding.memory} memory' if finding.memory else ''}"
        f"{'' if finding.severity == 'error' else f' ({finding.severity})'}"
        for finding in findings
    )
    return list(dict.fromkeys(texts))
