"""``verify --coverage``: lines and branches of the kernels that no input reached, in both forms."""

from __future__ import annotations

import importlib.util
import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import trifold
from tests.wrong.entry import Wrong, edits
from trifold.cli import app
from trifold.errors import ToolchainError
from trifold.verification import gcov
from trifold.verification.coverage import FileCoverage
from trifold.verification.matrix import render
from trifold.verification.report import Report

pytest.importorskip("coverage", reason="the coverage of prototypes needs coverage.py: pip install coverage")

# No input has this value: exp(x) of no finite dtype gets there, and NaN is not equal to it.
NEVER_REACHED = Wrong(
    name="a branch that no input reaches",
    why="a special case that the samples forgot",
    op="sigmoid",
    edits=(
        *edits(
            "prototype", ("        v = x[i]\n", "        v = x[i]\n        if v == 12345.0:\n            v = v - v\n")
        ),
        *edits(
            "header",
            (
                "  if (i < n) y[i] =",
                "  if (i < n && x[i] == T(12345.f))\n    y[i] = x[i];\n  else if (i < n)\n    y[i] =",
            ),
        ),
    ),
    row="values",
    implementation="port",
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    root = tmp_path_factory.mktemp("workspace")
    NEVER_REACHED.write(root)
    return trifold.verify(
        "sigmoid", workspace=root, devices=["cpu"], checks=["values", "gradients"], examples=5, coverage=True
    )


def _file(report: Report, name: str) -> FileCoverage:
    return next(file for file in report.ops[0].coverage or () if Path(file.file).name == name)


def _missed(file: FileCoverage) -> list[tuple[str, bool]]:
    return [(missed.text, missed.branch) for missed in file.missed]


def test_a_prototypes_line_that_no_input_reaches(report: Report) -> None:
    file = _file(report, "sigmoid.py")
    assert _missed(file) == [("if v == 12345.0:", True), ("v = v - v", False)]
    assert (file.lines - file.lines_reached, file.branches - file.branches_reached) == (1, 1)
    assert file.implementation == "prototype"


def test_a_ports_line_that_no_input_reaches(report: Report) -> None:
    file = _file(report, "sigmoid.cuh")
    assert _missed(file) == [("if (i < n && x[i] == T(12345.f))", True), ("y[i] = x[i];", False)]
    assert file.lines - file.lines_reached == 1
    assert (file.branches > file.branches_reached) and file.implementation == "port"
    assert _file(report, "sigmoid.cu").missed == ()


def test_a_missed_line_fails_nothing_and_is_in_the_json_report(report: Report) -> None:
    assert report.verdict == "incomplete"  # some checks were asked for, and passed
    data = json.loads(json.dumps(report.to_json()))
    files = {file["file"]: file for file in data["ops"][0]["coverage"]}
    assert list(files) == ["prototypes/sigmoid.py", "cuda_src/sigmoid.cuh", "cuda_src/sigmoid.cu"]
    assert files["prototypes/sigmoid.py"]["missed"][1]["text"] == "v = v - v"


def test_the_matrix_shows_shares_and_the_missed_lines_with_their_text(report: Report) -> None:
    console = Console(width=200, file=StringIO())
    with console.capture() as capture:
        console.print(render(report))
    shown = capture.get()
    number = _file(report, "sigmoid.py").missed[1].line
    assert f"prototypes/sigmoid.py:{number}: not reached: v = v - v" in shown
    assert f"prototypes/sigmoid.py:{number - 1}: a branch is not taken: if v == 12345.0:" in shown
    assert "cuda_src/sigmoid.cu    100%" in shown


def test_without_the_option_nothing_is_counted(tmp_path: Path) -> None:
    NEVER_REACHED.write(tmp_path)
    plain = trifold.verify(
        "sigmoid", workspace=tmp_path, implementations=["prototype"], devices=["cpu"], checks=["errors"]
    )
    assert plain.ops[0].coverage is None
    assert "coverage" not in plain.to_json()["ops"][0]


def test_coverage_py_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolchainError, match="pip install coverage"):
        trifold.verify("sigmoid", coverage=True)


def test_gcov_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\n", encoding="utf-8")
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(ToolchainError, match="there is none beside"):
        gcov.find_gcov()


def test_gcov_has_the_version_of_its_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("g++-13", "gcov-13", "gcov"):
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("CXX", str(tmp_path / "g++-13"))
    assert gcov.find_gcov() == tmp_path / "gcov-13"


def test_branches_of_exceptions_do_not_count() -> None:
    ways = [(1, False), (0, True), (4, False), (0, False), (2, False), (0, True)]
    kept = gcov.conditions([{"count": count, "throw": throw} for count, throw in ways])
    assert [way["count"] for way in kept] == [4, 0]


def test_the_command_has_the_option() -> None:
    from typer.testing import CliRunner

    assert "--coverage" in CliRunner().invoke(app, ["verify", "--help"], env={"COLUMNS": "200"}).output
