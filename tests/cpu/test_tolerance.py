"""Launches of C++ kernels that continue after findings: those that the user accepts, and with keep_going all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trifold
from trifold import places
from trifold.acceptance import AcceptanceError
from trifold.cpu import RawKernel
from trifold.findings import Finding, collect
from trifold.sanitize.program import ProgramReport, sanitize

PROGRAM = Path(__file__).with_name("programs") / "tolerated.cu"
LINES = PROGRAM.read_text().splitlines()


def sanitized(what: str, **options: bool | Path) -> ProgramReport:
    return sanitize(PROGRAM, [what], **options)  # type: ignore[arg-type]


def line_with(text: str) -> int:
    (line,) = [number for number, each in enumerate(LINES, start=1) if text in each]
    return line


def kinds(report: ProgramReport) -> list[tuple[str, str, int]]:
    return [(finding.kind, finding.array, finding.count) for finding in report.errors]


def test_a_comment_accepts_its_kind_at_its_line_and_counts_it(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitized("flagged")
    (finding,) = report.findings
    assert (finding.kind, finding.count, finding.accepted) == ("race", 126, "any of them will do")
    assert finding.accepted_at.endswith(f"tolerated.cu:{line_with('*flag = i;  //')}")
    assert (report.exit_status, report.failed) == (0, False)
    assert capfd.readouterr().out == "cudaSuccess\n63: 2 2 2 2\n"
    # The file has two more comments, one of them in this kernel.
    assert len(report.unmet) == 2
    assert any("(an older version had one)" in each for each in report.unmet)


def test_an_acceptance_hides_no_other_finding_of_the_same_access(capfd: pytest.CaptureFixture[str]) -> None:
    assert sanitized("unflagged").exit_status == 1
    report = sanitized("half flagged")
    accepted, mistake = sorted(report.findings, key=lambda finding: finding.is_mistake)
    assert (accepted.accepted, accepted.index) == ("only this element", (0,))
    assert (mistake.kind, mistake.accesses[1].line) == ("race", line_with("x[1] = 1;"))
    assert report.exit_status == 1
    capfd.readouterr()


@pytest.mark.parametrize(("file", "accepts"), [("programs/tolerated.cu", True), ("other.cu", False)])
def test_an_entry_of_a_file_accepts_by_kernel_and_file(
    file: str, accepts: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known.toml"
    known.write_text(f'[[suppression]]\nkind = "race"\nkernel = "un*"\nfile = "{file}"\nreason = "any will do"\n')
    report = sanitized("unflagged", suppressions=known)
    assert report.failed is not accepts
    assert any("known.toml, entry 1" in each for each in report.unmet) is not accepts
    capfd.readouterr()


def suppressions(folder: Path) -> Path:
    file = folder / "known.toml"
    file.write_text('[[suppression]]\nkind = "race"\nreason = "any will do"\n')
    return file


def test_writes_of_the_same_value_are_counted_as_others_are(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitized("same or other", suppressions=suppressions(tmp_path))
    (finding,) = report.findings
    assert (finding.count, finding.accepted, report.exit_status) == (126, "any will do", 0)
    report = sanitized("same or other", keep_going=True)
    counts = [(finding.severity, finding.array, finding.count) for finding in report.findings]
    assert counts == [("warning", "flag", 78), ("error", "flag", 48)]
    assert report.exit_status == 1
    shown = [part.partition(" on ")[0] for part in places.summary(report.findings, [])]
    assert shown == ["78 times: warning: race", "48 times: race"]
    assert capfd.readouterr().out == 2 * "cudaSuccess\n63: 2 2 2 2\n"


@pytest.mark.parametrize("accepts", [True, False], ids=["accepted", "keep going"])
def test_reads_that_no_compare_and_swap_follows_are_counted_at_their_lines(
    accepts: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    accepted = {"suppressions": suppressions(tmp_path)}
    report = sanitized("looks", **accepted) if accepts else sanitized("looks", keep_going=True)
    reads = [(finding.accesses[0].operation, finding.accesses[0].line) for finding in report.findings]
    assert reads == [("read", line_with(text)) for text in ("x[i] = *flag;", "x[i] += x[61]", "x[i] += x[62]")]
    assert {(finding.kind, finding.count) for finding in report.findings} == {("race", 62)}
    assert report.failed is not accepts
    assert capfd.readouterr().out == "cudaSuccess\n2: 0 6 6 0\n"


def test_keep_going_skips_what_must_not_happen(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitized("out of bounds", keep_going=True)
    found = {(f.kind, f.array, f.accesses[0].operation, f.accesses[0].line) for f in report.errors}
    assert found == {
        ("out-of-bounds", "x", "write", line_with("x[N + n] = 5")),
        ("out-of-bounds", "x", "read", line_with("poison is not a number")),
        ("out-of-bounds", "x", "atomic", line_with("atomicAdd(&x[N + n]")),
        ("out-of-bounds", "rows[0]", "write", line_with("rows[0][4 + n]")),
        ("out-of-bounds", "factor", "write", line_with("factor[0] = 2")),
        ("out-of-bounds", "own", "write", line_with("own[4 + n] = 9")),
        ("out-of-bounds", "", "write", line_with("nullptr")),
        ("out-of-bounds", "x", "read", line_with("memcpy(x, ")),
        ("misaligned", "x", "write", line_with("misaligned, and done")),
    }
    # A skipped access does not change the row, the flag or any other thread; 5 and 6 have ended.
    assert capfd.readouterr().out == "cudaSuccess\n0: 4 4 0 7\n"
    assert report.exit_status == 1


def test_each_place_is_listed_once_with_its_count(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitized("unflagged", keep_going=True)
    assert kinds(report) == [("race", "flag", 126)]
    assert capfd.readouterr().out == "cudaSuccess\n63: 2 2 2 2\n"
    report = sanitized("two barriers", keep_going=True)
    assert kinds(report) == [("barrier divergence", "", 2)]
    assert capfd.readouterr().out == "cudaSuccess\n0: 64 64 64 64\n"


def test_after_a_deadlock_the_program_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    assert kinds(sanitized("deadlock", keep_going=True)) == [("deadlock", "", 2)]
    assert capfd.readouterr().out.startswith("cudaSuccess\n0:")


def test_the_command_lists_what_is_accepted_met_and_not(tmp_path: Path) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "trifold", "sanitize", *words], capture_output=True, text=True, cwd=tmp_path
        )

    done = command("--json", "report.json", str(PROGRAM), "flagged")
    assert done.returncode == 0
    flag = line_with("*flag = i;  //")
    assert f"accepted by {PROGRAM}:{flag}: race on flag in flagged at tolerated.cu:{flag}, 126 times" in done.stderr
    assert "allowed, but did not occur: misaligned at" in done.stderr
    data = json.loads((tmp_path / "report.json").read_text())
    assert (data["verdict"], data["findings"][0]["accepted"]) == ("clean", "any of them will do")
    done = command("--keep-going", str(PROGRAM), "unflagged")
    assert done.returncode == 1
    assert done.stderr.count("race on global array element flag[0]") == 1
    assert "126 times: race" in done.stderr
    assert "126 findings at 1 place, 0 problems" in done.stderr


KERNEL = """__global__ void flagged(int* flag) {
  *flag = threadIdx.x;  // trifold: allow race, any of them will do
}"""


def test_a_comment_in_the_text_of_a_raw_kernel_counts_too() -> None:
    flag = np.zeros(1, np.int32)
    found: list[Finding]
    with collect() as found:
        RawKernel(KERNEL, "flagged")(1, 32, (flag,))
    assert [(finding.count, finding.accepted) for finding in found] == [(31, "any of them will do")]
    with pytest.raises(AcceptanceError, match=r":2: there is no finding of the kind 'rice'"):
        RawKernel(KERNEL.replace("race", "rice"), "flagged")(1, 32, (flag,))
    with pytest.raises(trifold.KernelFault, match="race"):
        RawKernel(KERNEL.replace("race", "misaligned"), "flagged")(1, 32, (flag,))


READ_TOO = """__global__ void filled(int* all, int* y) {
  all[threadIdx.x / 8] = 7;  // trifold: allow race of writes, all the same
  __syncwarp();
  y[threadIdx.x] = all[threadIdx.x / 8 ^ 1];
}"""


def test_a_comment_for_writes_accepts_no_race_of_one_with_a_read() -> None:
    arrays = np.zeros(4, np.int32), np.zeros(32, np.int32)
    with collect() as found:
        RawKernel(READ_TOO, "filled")(1, 32, arrays)
    assert {finding.accepted for finding in found} == {"all the same"}
    with pytest.raises(trifold.KernelFault, match=r"reads it|read"):
        RawKernel(READ_TOO.replace("  __syncwarp();\n", ""), "filled")(1, 32, arrays)
