"""The row of the engine's findings: what a failure carries, and what only earns a remark."""

from __future__ import annotations

from pathlib import Path

import pytest

import trifold
from tests.wrong.entry import GALLERY, Wrong, copy_of_gallery, edits
from tests.wrong.findings import FINDINGS
from trifold.cells import Kind
from trifold.verification import worker
from trifold.verification.job import CellName, Job
from trifold.verification.load_spec import load_spec
from trifold.verification.report import Row

RACE = FINDINGS[0]


def _findings(op: str, root: Path, implementation: Kind = "prototype") -> Row:
    report = trifold.verify(
        op, workspace=root, implementations=[implementation], devices=["cpu"], checks=["findings"], examples=5
    )
    row = report.ops[0].row("findings", implementation, "cpu")
    assert row is not None
    return row


def test_a_failure_carries_the_findings_with_both_accesses(tmp_path: Path) -> None:
    RACE.write(tmp_path)
    (failure,) = _findings(RACE.op, tmp_path).failures
    (finding,) = failure.findings
    assert (finding["kind"], finding["array"], finding["memory"]) == ("race", "y", "global")
    assert [Path(access["file"]).name for access in finding["accesses"]] == ["round_ste.py", "round_ste.py"]
    assert finding["replay"] in failure.message
    assert 'trifold.load("round_ste", implementation="prototype", device="cpu")' in failure.code


def test_a_ports_failure_carries_the_findings_with_both_accesses(tmp_path: Path) -> None:
    race = next(wrong for wrong in FINDINGS if wrong.implementation == "port" and wrong.name == RACE.name)
    race.write(tmp_path)
    (failure,) = _findings(race.op, tmp_path, "port").failures
    (finding,) = failure.findings
    assert (finding["kind"], finding["array"], finding["memory"]) == ("race", "y", "global")
    assert [Path(access["file"]).name for access in finding["accesses"]] == ["round_ste.cuh", "round_ste.cuh"]
    assert finding["replay"] in failure.message


def test_a_negative_index_passes_with_a_remark(tmp_path: Path) -> None:
    wrong = Wrong(
        name="counted from the end",
        why="Python allows it, and so does Numba",
        op="add",
        edits=edits("prototype", ("out[i] = x[i] + y[i]", "out[i] = x[i - n] + y[i]")),
        row="findings",
        implementation="prototype",
    )
    wrong.write(tmp_path)
    row = _findings("add", tmp_path)
    assert row.outcome == "passed"
    assert "negative index" in row.reason
    assert "add.py" in row.reason


def test_a_good_kernel_earns_no_remark(tmp_path: Path) -> None:
    copy_of_gallery("add", tmp_path)
    row = _findings("add", tmp_path)
    assert (row.outcome, row.reason) == ("passed", "")


@pytest.mark.parametrize(
    ("checks", "needed"),
    [((), True), (("build", "findings"), True), (("findings", "values"), True), (("findings",), False)],
)
def test_the_row_alone_needs_no_build_but_its_own(checks: tuple[str, ...], needed: bool) -> None:
    job = Job(str(GALLERY.root), CellName("add", "port", "cpu"), checks)
    assert worker._needs_build(job, load_spec(GALLERY.op("add"))) is needed
