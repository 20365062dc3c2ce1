"""The pairs under compute-sanitizer and under the checks on the CPU, as one table."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cpu.catalogue.agreement import Row, Subject, group_of, table
from tests.cpu.catalogue.asynchronous.catalogue import CLASSES, PAIRS, WITHOUT_PAIR
from tests.cpu.catalogue.asynchronous.checks import SEEDS, findings
from tests.cpu.catalogue.asynchronous.kernels import KERNELS, Kernel
from tests.cpu.catalogue.asynchronous.pair import Pair, qualified, write_kernels
from tests.cpu.catalogue.checked import FOLDER
from tests.cpu.catalogue.launcher import Start
from trifold.findings import Finding


@dataclass(frozen=True)
class OnCpu:
    """The findings of the CPU checks in one kernel under all schedules.

    Attributes:
        findings: of all schedules.
        as_expected: the schedules with the catalogue's result: one finding of its kind and lines, or none.
    """

    findings: tuple[Finding, ...]
    as_expected: int


def write_program(folder: Path) -> None:
    """The sources of replay.cu and gpu.cu with the kernels of all pairs."""
    for name in ("gpu.cu", "replay.cu", "start.cuh"):
        shutil.copyfile(FOLDER / name, folder / name)
    write_kernels(folder, KERNELS.values(), PAIRS)


def subject_of(case: Kernel | Pair) -> Subject:
    """For a pair, the wrong twin."""
    if isinstance(case, Kernel):
        return Subject(f"right {case}", qualified(case), "", "", _nothing, case.run, "right")
    kinds = " or ".join(dict.fromkeys(found.kind for found in case.found))
    group = "" if case.hangs else group_of(kinds)
    return Subject(str(case), case.qualified, kinds, case.hidden, _nothing, case.right.run, group)


def on_cpu(start: Start, case: Kernel | Pair) -> OnCpu:
    everything = [findings(start, case, seed) for seed in SEEDS]
    if isinstance(case, Kernel):
        shown = sum(not found for found in everything)
    else:
        shown = sum(len(found) == 1 and any(e.is_in(found[0]) for e in case.found) for found in everything)
    return OnCpu(tuple(finding for found in everything for finding in found), shown)


def document(rows: list[Row], cpu: Mapping[str, OnCpu]) -> dict[str, Any]:
    """The table of the rows, in which wrong kernels have their classes, lines and schedules next to the findings.

    Args:
        cpu: by the names of the subjects.
    """
    made = table(rows)
    pairs = {str(pair): pair for pair in PAIRS}
    for row in made["kernels"]:
        row["schedules as expected"] = f"{cpu[row['kernel']].as_expected} of {len(SEEDS)}"
        if (pair := pairs.get(row["kernel"])) is not None:
            right, wrong = pair.lines
            row |= {"class": pair.number, "twin": pair.kernel, "right line": right, "wrong line": wrong}
    covered = {pair.number for pair in PAIRS} - {0}
    hung = [row for row in rows if row.did_not_end and not row.found_on_gpu]
    return {
        "pairs": len(PAIRS),
        "classes with a pair": f"{len(covered)} of {len(CLASSES)}",
        "classes without a pair": {str(number): reason for number, reason in WITHOUT_PAIR.items()},
        "did not end on the GPU, with nothing found there": len(hung),
        **made,
    }


def _nothing(*_: Any) -> tuple[int, ...]:
    return ()
