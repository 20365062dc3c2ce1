"""The row ``findings`` of a GPU: what it makes of compute-sanitizer's reports. A script stands for the tool, and the op
runs on the CPU."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.sanitize import reports
from tests.wrong.entry import GALLERY
from trifold.errors import ToolchainError
from trifold.sanitize import compute_sanitizer
from trifold.sanitize.compute_sanitizer import TOOLS
from trifold.verification import worker
from trifold.verification.cell import Absence, Cell, CheckFailed, NotRun
from trifold.verification.checks.findings_on_gpu import findings_on_gpu
from trifold.verification.job import CellName, Job
from trifold.verification.load_spec import load_spec
from trifold.verification.remote import OpProcess

# Runs the command behind its options, then writes what stands in the file of the tool's name.
_SCRIPT = """#!/usr/bin/env bash
here=$(dirname "$0")
if [ "$1" = --version ]; then echo "Version 2026.4.0.0 (build 1)"; exit; fi
if [ "$1" = --help ]; then exit; fi
while [ $# -gt 0 ]; do
  case $1 in
    --log-file=*) log=${1#--log-file=};;
    --tool=*) tool=${1#--tool=};;
    --*) ;;
    *) break;;
  esac
  shift
done
echo "$tool" >> "$here/started"
"$@"
status=$?
[ -e "$here/$tool" ] && cp "$here/$tool" "$log"
exit $status
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a compute-sanitizer whose tools report nothing."""
    script = tmp_path / "compute-sanitizer"
    script.write_text(_SCRIPT, encoding="utf-8")
    script.chmod(0o755)
    for name in TOOLS:
        (tmp_path / name).write_text(reports.CLEAN, encoding="utf-8")
    monkeypatch.setattr(compute_sanitizer, "find", lambda: script)
    return tmp_path


@pytest.fixture(scope="module")
def cell() -> Cell:
    job = Job(str(GALLERY.root), CellName("add", "port", "cpu"), examples=2)
    files = GALLERY.op("add")
    process = OpProcess(worker._starter(job), timeout=60)
    return worker._cell(
        job, files, load_spec(files), worker._reference(files), process, process, worker.Events(io.StringIO())
    )


def test_without_a_finding_it_passes_and_says_which_version_ran_on_how_many_calls(tool: Path, cell: Cell) -> None:
    remark = findings_on_gpu(cell)
    assert remark.startswith("compute-sanitizer 2026.4.0.0; ")
    assert "call" in remark
    assert "not launched" not in remark
    assert sorted((tool / "started").read_text().split()) == sorted(TOOLS)  # one process for each


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("memcheck", reports.MEMCHECK, "out-of-bounds in kernel ns::scale<float>"),
        ("racecheck", reports.RACECHECK, "race on shared memory at 0x8c in kernel sums"),
        ("initcheck", reports.INITCHECK, "uninitialised read in kernel add_one"),
        ("synccheck", reports.SYNCCHECK, "barrier divergence in kernel wait"),
    ],
)
def test_a_finding_of_any_tool_fails_the_row_in_the_words_of_our_findings(
    tool: Path, cell: Cell, name: str, text: str, words: str
) -> None:
    (tool / name).write_text(text, encoding="utf-8")
    with pytest.raises(CheckFailed, match=words) as caught:
        findings_on_gpu(cell)
    assert f"({name})" in caught.value.message
    assert f"compute-sanitizer --tool {name}" in caught.value.message
    assert caught.value.call is not None
    assert caught.value.findings


def test_a_warning_of_racecheck_fails_the_row(tool: Path, cell: Cell) -> None:
    text = reports.RACECHECK[reports.RACECHECK.index("========= Warning") :]
    (tool / "racecheck").write_text(text, encoding="utf-8")
    with pytest.raises(CheckFailed, match="warp level programming"):
        findings_on_gpu(cell)


def test_what_is_found_in_torch_s_own_kernels_is_a_remark(tool: Path, cell: Cell) -> None:
    text = reports.INITCHECK.replace("add_one(int *)+0x70 in /src/add.cu:41", "void at::native::fill<int>(int *)+0x70")
    (tool / "initcheck").write_text(text, encoding="utf-8")
    assert "initcheck tells of torch's own kernels: at::native::fill<int>" in findings_on_gpu(cell)


def test_a_kernel_of_the_op_is_not_torch_s_by_its_name(tool: Path, cell: Cell) -> None:
    text = reports.INITCHECK.replace("add_one(int *)", "at::native::fill(int *)")  # with a line, which torch's have not
    (tool / "initcheck").write_text(text, encoding="utf-8")
    with pytest.raises(CheckFailed, match="uninitialised read"):
        findings_on_gpu(cell)


def test_a_report_of_a_form_that_is_not_known_fails_the_row_as_it_stands(tool: Path, cell: Cell) -> None:
    text = reports.CLEAN.replace("ERROR SUMMARY", "Something new happened\n=========\n========= ERROR SUMMARY")
    (tool / "synccheck").write_text(text, encoding="utf-8")
    with pytest.raises(CheckFailed, match="synccheck tells: Something new happened"):
        findings_on_gpu(cell)


def test_a_warning_of_the_tool_itself_is_a_remark(tool: Path, cell: Cell) -> None:
    warning = "Warning: Detected overflow of tracked cuda::barrier structures"
    text = reports.CLEAN.replace("ERROR SUMMARY", f"{warning}\n========= ERROR SUMMARY")
    (tool / "racecheck").write_text(text, encoding="utf-8")
    assert f"racecheck tells: {warning}" in findings_on_gpu(cell)


def test_without_a_tool_it_does_not_run(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> Path:
        raise ToolchainError("there is none", "install it")

    monkeypatch.setattr(compute_sanitizer, "find", nothing)
    with pytest.raises(NotRun, match=f"{Absence.NO_SANITIZER}: install it"):
        findings_on_gpu(cell)


def test_a_tool_that_works_nowhere_does_not_run(tool: Path, cell: Cell) -> None:
    (tool / "memcheck").write_text(reports.NO_CUDA, encoding="utf-8")
    with pytest.raises(NotRun, match=str(Absence.SANITIZER_FAILS)):
        findings_on_gpu(cell)
