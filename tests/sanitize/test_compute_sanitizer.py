"""Running a program under a tool: the result of each way to end. A script replaces compute-sanitizer."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import time
from pathlib import Path

import pytest

from tests.processes import runs
from tests.sanitize import reports
from trifold import compute_sanitizer
from trifold.errors import ToolchainError
from trifold.sanitize.on_gpu import GpuReport

_SCRIPT = """#!/bin/sh
for each in "$@"; do case $each in --log-file=*) log=${each#--log-file=};; esac; done
"""


def _tool(folder: Path, ending: str) -> Path:
    script = folder / "compute-sanitizer"
    script.write_text(f"{_SCRIPT}{ending}\n", encoding="utf-8")
    script.chmod(0o755)
    return script


def _prints(folder: Path, text: str, status: int = 0) -> Path:
    (folder / "printed.txt").write_text(text, encoding="utf-8")
    return _tool(folder, f'cp "{folder}/printed.txt" "$log"; exit {status}')


@pytest.mark.parametrize(
    ("text", "status", "outcome"),
    [
        (reports.CLEAN, 0, "passed"),
        (reports.MEMCHECK, 1, "failed"),
        (reports.NO_CUDA, 255, "not run"),
        (reports.FAILED_CALL, 0, "not run"),
        ("", 3, "not run"),
    ],
    ids=["clean", "a mistake", "no call of CUDA", "a failed call", "no output"],
)
def test_outcomes(text: str, status: int, outcome: str, tmp_path: Path) -> None:
    run = compute_sanitizer.run(_prints(tmp_path, text, status), "memcheck", ["true"])
    report = GpuReport("op", (run,))
    assert (run.status, report.outcome) == (status, outcome)
    assert (outcome == "not run") == bool(report.problems and not report.findings)
    assert report.to_json()["outcome"] == outcome


def test_a_warning_alone_does_not_fail(tmp_path: Path) -> None:
    text = reports.RACECHECK[reports.RACECHECK.index("========= Warning") :]
    run = compute_sanitizer.run(_prints(tmp_path, text), "racecheck", ["true"])
    assert [finding.severity for finding in run.report.findings] == ["warning"]
    assert GpuReport("op", (run,)).outcome == "passed"


def test_a_hang_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    script = _tool(tmp_path, f'sleep 600 & echo $! > "{tmp_path}/pid"; wait')
    begin = time.monotonic()
    run = compute_sanitizer.run(script, "memcheck", ["true"], timeout=1)
    assert time.monotonic() - begin < 10
    assert not run.in_time
    assert "did not end in time" in run.problems[0]
    assert GpuReport("op", (run,)).outcome == "failed"
    pid = int((tmp_path / "pid").read_text())
    while runs(pid):  # the signal was sent; a busy machine takes its time
        assert time.monotonic() - begin < 60
        time.sleep(0.01)


def test_it_is_found_in_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_sanitizer, "_of_package", list)
    (tmp_path / "bin").mkdir()
    made = _tool(tmp_path / "bin", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert compute_sanitizer.find() == made


def test_that_of_a_package_comes_before_the_toolkit_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / "site" / "nvidia" / "cu13" / "bin", tmp_path / "toolkit" / "bin"]
    for place in places:
        place.mkdir(parents=True)
    of_package, _ = (_tool(place, 'echo "Version 2026.4.0.0 (build 1)"') for place in places)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    nvidia = importlib.machinery.ModuleSpec("nvidia", None, is_package=True)
    nvidia.submodule_search_locations = [str(tmp_path / "site" / "nvidia")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: nvidia)
    assert compute_sanitizer.find() == of_package
    assert compute_sanitizer.version(of_package) == "2026.4.0.0"


def test_an_option_of_newer_versions_is_left_out_where_the_help_does_not_name_it(tmp_path: Path) -> None:
    for name, printed in (("old", ""), ("new", "--initcheck-address-space arg (=global)")):
        (tmp_path / name).mkdir()
        command = compute_sanitizer.prefix(_tool(tmp_path / name, f'echo "{printed}"'), "initcheck", tmp_path / "log")
        assert ("--initcheck-address-space=all" in command) == (name == "new")


def test_a_program_may_take_any_time_until_it_uses_the_gpu(tmp_path: Path) -> None:
    """As a process that waits until the other tools are done. A limit ends the tool, but not the program, which then
    waits for the tool: the row of a right op failed for it."""
    assert "--launch-timeout=0" in compute_sanitizer.prefix(_tool(tmp_path, ""), "synccheck", tmp_path / "log")


def test_where_it_is_missing_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_sanitizer, "_of_package", list)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.defpath)
    with pytest.raises(ToolchainError, match="cuda-sanitizer"):
        compute_sanitizer.find()
