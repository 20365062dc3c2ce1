"""Progress messages of `trifold verify`, on a terminal and in a pipe."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import trifold
from tests.wrong.entry import copy_of_gallery
from trifold.cells import CellName
from trifold.verification.progress import Progress, shown
from trifold.verification.report import Failure, OutcomeName, Row
from trifold.verification.watch import InWords, Watch

PROTOTYPE, PORT = CellName("softmax", "prototype", "cpu"), CellName("softmax", "port", "cpu")


def row(cell: CellName, check: str, outcome: OutcomeName = "passed") -> Row:
    return Row(check, cell.implementation, cell.device, outcome)


def progress(*, terminal: bool) -> tuple[Progress, StringIO]:
    file = StringIO()
    return Progress(Console(file=file, width=80, force_terminal=terminal, no_color=True)), file


def line(counted: Progress) -> str:
    return re.sub(r"\d+:\d\d", "M:SS", str(counted.line()))


def test_checks_are_counted_as_they_end() -> None:
    counted, _ = progress(terminal=False)
    assert line(counted) == "starting, M:SS"
    counted.planned(PROTOTYPE, ["build", "values"])
    counted.planned(PORT, ["build", "values"])
    assert line(counted) == "0 of 4 checks, 0 failed, M:SS  "
    counted.began(PORT, "build")
    counted.ended(PORT, row(PORT, "build"))
    assert line(counted) == "1 of 4 checks, 0 failed, M:SS  softmax port·cpu: build"
    counted.planned(PORT, ["build", "values", "property: rows sum to one"])
    counted.ended(PORT, row(PORT, "values", "failed"))
    assert line(counted).startswith("2 of 5 checks, 1 failed")


def test_a_check_counts_once_though_its_worker_starts_again() -> None:
    counted, _ = progress(terminal=False)
    for _ in range(2):
        counted.planned(PORT, ["build", "values"])
        counted.ended(PORT, row(PORT, "build"))
    assert line(counted).startswith("1 of 2 checks")


def test_what_did_not_come_counts_once_its_cell_is_over() -> None:
    counted, _ = progress(terminal=False)
    counted.planned(PORT, ["build", "values", "gradients"])
    counted.finished(PORT, [row(PORT, "build", "failed")])
    assert line(counted).startswith("3 of 3 checks, 1 failed")


def test_a_pipe_has_a_line_for_each_failure_and_for_each_op_when_its_last_cell_ends() -> None:
    counted, file = progress(terminal=False)
    for cell in (PROTOTYPE, PORT):
        counted.planned(cell, ["build", "values"])
    counted.finished(PROTOTYPE, [row(PROTOTYPE, "build"), row(PROTOTYPE, "values")])
    assert file.getvalue() == ""
    counted.ended(PORT, row(PORT, "values", "failed"))
    counted.finished(PORT, [row(PORT, "build"), row(PORT, "values", "failed")])
    first, second = file.getvalue().splitlines()
    assert first == "✗ softmax port·cpu values"
    assert re.fullmatch(r"softmax: 3 passed, 1 failed \(port·cpu values\), \d+:\d\d", second)


def test_a_terminal_names_each_failure_once_and_at_once() -> None:
    counted, file = progress(terminal=True)
    counted.planned(PORT, ["build", "values"])
    failure = Failure("two results differ\nby much")
    counted.ended(PORT, replace(row(PORT, "values", "failed"), failures=(failure,)))
    printed = re.sub(r"\x1b\[[\d;]*m", "", file.getvalue())
    assert printed == "✗ softmax port·cpu values: two results differ\n"
    counted.finished(PORT, [row(PORT, "build"), row(PORT, "values", "failed")])
    assert file.getvalue().count("✗") == 1


def test_the_line_of_a_terminal_goes_away_and_a_pipe_has_no_control_character(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # not a dumb one
    for terminal in (True, False):
        file = StringIO()
        with shown(Console(file=file, width=80, force_terminal=terminal)) as counted:
            counted.planned(PORT, ["build"])
            counted.finished(PORT, [row(PORT, "build")])
        assert ("1 of 1 checks" in file.getvalue()) == terminal
        assert ("\x1b" in file.getvalue()) == terminal


class Recorded(Watch):
    """Keeps what is reported to it."""

    def __init__(self) -> None:
        self.plans: list[list[str]] = []
        self.begun: list[str] = []
        self.ends: list[str] = []
        self.over: list[list[str]] = []

    def planned(self, cell: CellName, checks: object) -> None:
        assert isinstance(checks, list | tuple)
        self.plans.append([str(check) for check in checks])

    def began(self, cell: CellName, check: str) -> None:
        self.begun.append(check)

    def ended(self, cell: CellName, row: Row) -> None:
        self.ends.append(row.check)

    def finished(self, cell: CellName, rows: object) -> None:
        assert isinstance(rows, list)
        self.over.append([each.check for each in rows])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    watch = Recorded()
    root: Path = copy_of_gallery("add", tmp_path_factory.mktemp("workspace")).root
    chosen = {"implementations": ("prototype",), "devices": ("cpu",), "checks": ("build", "errors")}
    trifold.verify("add", workspace=root, watch=watch, **chosen)  # type: ignore[arg-type]
    return watch


def test_a_verification_tells_what_it_plans_begins_and_ends(recorded: Recorded) -> None:
    assert recorded.plans == [["build", "errors"]] * 2  # before the spec is loaded, and after
    assert recorded.begun == ["", "build", "errors"]
    assert recorded.ends == ["build", "errors"]
    assert recorded.over == [["build", "errors"]]


def test_in_words() -> None:
    said: list[str] = []
    watch = InWords(said.append)
    watch.began(PORT, "")
    watch.began(PORT, "values")
    assert said == ["softmax port·cpu", "softmax port·cpu: values"]
