"""compute-sanitizer as the judge: where it finds a mistake in a kernel of the catalogue, the CPU's checks do so too.

A wrong kernel runs under the tool for its kind of mistake. With TRIFOLD_RECORD=FOLDER each runs under all tools, the
table of all findings is written to FOLDER/compute-sanitizer.json, and the tools' output to
FOLDER/compute-sanitizer.txt.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from benchmarks.records import sources
from tests.cpu.catalogue.agreement import Row, Subject, on_gpu, row_of, subject_of, table
from tests.cpu.catalogue.checked import findings_in, op_in
from tests.cpu.catalogue.native import Native
from tests.cpu.catalogue.twins import Twin
from tests.cpu.test_catalogue import (
    RIGHT,
    RIGHT_IN_CPP,
    WRONG,
    WRONG_IN_CPP,
    nothing_more,
)
from trifold import compute_sanitizer
from trifold.compute_sanitizer import ToolRun
from trifold.cpu import runtime
from trifold.errors import ToolchainError
from trifold.implementation import load_checked_port
from trifold.machine.environment import environment

CASES: list[Twin | Native] = [*WRONG, *WRONG_IN_CPP, *RIGHT, *RIGHT_IN_CPP]
SUBJECTS = [subject_of(case, nothing_more) for case in CASES]


def _sanitizer_is_here() -> bool:
    try:
        compute_sanitizer.find()
    except ToolchainError:
        return False
    return True


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow(seconds=250),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc here"),
    pytest.mark.skipif(not _sanitizer_is_here(), reason="there is no compute-sanitizer here"),
]


Runs = dict[str, list[ToolRun]]

# racecheck warns of volatile flags in shared memory even where they are polled, which is correct (PTX: volatile
# accesses are relaxed atomics).
FALSE_ALARMS = ("volatile_flags_polled_by_vote", "search_ended_by_a_volatile_flag")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return on_gpu(SUBJECTS, tmp_path_factory.mktemp("tapes"), every_tool="TRIFOLD_RECORD" in os.environ)


@pytest.fixture(scope="module")
def rows(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    start = load_checked_port(op_in(tmp_path_factory.mktemp("catalogue"))).function
    made = [
        row_of(subject, findings_in(subject, subject.kernel(start), runtime.schedules(1)), runs[subject.name])
        for subject in SUBJECTS
    ]
    folder = os.environ.get("TRIFOLD_RECORD")
    if folder:
        facts = environment(Path(__file__).parents[2], torch.device("cuda"))
        facts["sources"] = sources("cpu/compute-sanitizer.json")
        record = {"environment": facts, **table(made)}
        Path(folder, "compute-sanitizer.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        different = {id(run): run for of_one in runs.values() for run in of_one}.values()
        texts = [f"# {run.tool}, exit status {run.status}\n{run.text}" for run in different]
        Path(folder, "compute-sanitizer.txt").write_text("\n".join(texts), encoding="utf-8")
    return made


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_what_compute_sanitizer_finds_the_host_finds(subject: Subject, rows: list[Row]) -> None:
    row = next(row for row in rows if row.subject == subject)
    if subject.name in FALSE_ALARMS:
        assert not row.cpu
    elif row.found_on_gpu:
        assert row.cpu or subject.beyond, "\n\n".join(map(str, row.found_on_gpu))


def test_nothing_that_compute_sanitizer_found_was_left_unprinted(runs: Runs) -> None:
    problems = {problem for of_one in runs.values() for run in of_one for problem in run.report.problems}
    assert not [problem for problem in problems if "printed only" in problem]


def test_compute_sanitizer_did_find_mistakes(rows: list[Row]) -> None:
    """Each tool found something: it ran, and its output was understood."""
    for tool in compute_sanitizer.TOOLS:
        assert any(row.gpu.get(tool) for row in rows), tool
