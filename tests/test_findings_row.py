"""The row of the engine's findings: what a failure carries, and what only earns a remark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trifold
from tests.wrong.entry import GALLERY, Wrong, copy_of_gallery, edits
from tests.wrong.findings import FINDINGS
from trifold.cells import CellName, ImplementationKind
from trifold.findings import KernelWarning
from trifold.source_hashes import changed_sources, source_hashes
from trifold.spec.load import load_spec
from trifold.verification import worker
from trifold.verification.certificate import read_certificate, write_certificate
from trifold.verification.job import Job
from trifold.verification.report import OpReport, Report, Row
from trifold.workspace import Workspace

# Of copies of ops of the gallery, which no other run builds.
pytestmark = pytest.mark.usefixtures("quick_builds")

RACE = FINDINGS[0]


def _findings(op: str, root: Path, implementation: ImplementationKind = "prototype") -> Row:
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
    how = f"# python -m trifold.simulator --seed {finding['seed']} THIS_FILE.py"
    assert failure.code.splitlines()[0] == how


def test_a_ports_failure_carries_the_findings_and_a_program_that_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = next(wrong for wrong in FINDINGS if wrong.implementation == "port" and wrong.name == RACE.name)
    race.write(tmp_path)
    (failure,) = _findings(race.op, tmp_path, "port").failures
    (finding,) = failure.findings
    assert (finding["kind"], finding["array"], finding["memory"]) == ("race", "y", "global")
    assert [Path(access["file"]).name for access in finding["accesses"]] == ["round_ste.cuh", "round_ste.cuh"]
    assert finding["replay"] in failure.message
    assert f'trifold.load("round_ste", checks=True, seed={finding["seed"]})' in failure.code
    monkeypatch.chdir(tmp_path)
    with pytest.warns(KernelWarning, match=f"race on global array element y.*\n{finding['replay']}"):
        exec(failure.code, {})


@pytest.mark.parametrize("given", [{"checks": True, "implementation": "prototype"}, {"seed": 2}, {"seed": -1}])
def test_checks_and_seeds_that_mean_nothing_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="checks"):
        trifold.load("round_ste", workspace=GALLERY, **given)


def _with_race(
    root: Path, implementation: ImplementationKind, comment: str = "", end: str = "", same: bool = False
) -> Workspace:
    """round_ste whose threads write one element of shared memory, each its own value or all the same, with a comment at
    that line, and one at the end."""
    workspace = copy_of_gallery("round_ste", root)
    files = workspace.op("round_ste")
    if implementation == "prototype":
        file, sign, before = files.prototype, "#", "    step = cuda.gridsize(1)\n"
        racy = f"    seen = cuda.shared.array(1, x.dtype)\n    seen[0] = {1 if same else 'i'}"
    else:
        file, sign, before = files.header, "//", "  const int64_t step ="
        racy = f"  __shared__ int seen;\n  seen = {1 if same else 'threadIdx.x'};"
    text = file.read_text()
    assert before in text
    text = text.replace(before, f"{racy}  {sign} {comment}\n{before}")
    file.write_text(f"{text}\n{sign} {end}\n")
    return workspace


@pytest.mark.parametrize("implementation", ["prototype", "port"])
def test_what_the_author_accepts_passes_and_is_told(implementation: ImplementationKind, tmp_path: Path) -> None:
    comments = "trifold: allow race, nobody reads it", "trifold: allow misaligned, behind all kernels"
    workspace = _with_race(tmp_path, implementation, *comments)
    row = _findings("round_ste", tmp_path, implementation)
    assert (row.outcome, row.failures) == ("passed", ())
    accepted = row.accepted[0]
    assert (accepted["reason"], accepted["count"] > 1) == ("nobody reads it", True)
    assert "race on seen in" in accepted["finding"]
    assert f"times: {accepted['reason']}" in row.reason
    assert ("allowed, but did not occur: misaligned" in row.reason) == (implementation == "port")
    result = OpReport("round_ste", (row,))
    write_certificate(workspace, result, Report("", "", "cpu", (result,)), sources={}, seed=None)
    (kept,) = read_certificate(workspace, "round_ste")["rows"]
    assert (kept["accepted"], kept["reason"]) == (list(row.accepted), row.reason)


def test_a_workspaces_suppressions_are_a_source_of_the_verdict(tmp_path: Path) -> None:
    workspace = _with_race(tmp_path, "prototype", same=True)
    assert _findings("round_ste", tmp_path).outcome == "failed"
    known = tmp_path / "known.toml"
    known.write_text('[[suppression]]\nkind = "race"\nfile = "round_ste.py"\nreason = "nobody reads it"\n')
    (tmp_path / "pyproject.toml").write_text('[tool.trifold]\nsuppressions = "known.toml"\n')
    row = _findings("round_ste", tmp_path)
    assert (row.outcome, row.accepted[0]["place"]) == ("passed", f"{known}, entry 1")
    before = source_hashes(workspace, workspace.op("round_ste"))
    known.write_text(known.read_text() + "\n")
    assert changed_sources(before, source_hashes(workspace, workspace.op("round_ste"))) == ["known.toml"]


@pytest.mark.parametrize(
    ("sum_", "why", "remark"),
    [
        pytest.param("x[i - n] + y[i]", "Python allows it, and so does Numba", "negative index", id="a negative index"),
        pytest.param(
            "x[i] + (other := y[i])",
            "it runs in the simulator",
            "Numba's CUDA target does not compile it: assign other in a statement of its own",
            id="a kernel that Numba does not compile",
        ),
    ],
)
def test_what_is_no_mistake_passes_with_a_remark(sum_: str, why: str, remark: str, tmp_path: Path) -> None:
    edited = edits("prototype", ("out[i] = x[i] + y[i]", f"out[i] = {sum_}"))
    wrong = Wrong(name="odd", why=why, op="add", edits=edited, row="findings", implementation="prototype")
    wrong.write(tmp_path)
    row = _findings("add", tmp_path)
    assert row.outcome == "passed"
    assert remark in row.reason
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
