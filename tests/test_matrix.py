"""The matrix on the screen: nothing is truncated at any width, and each mark is in its column."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from trifold.cells import CELLS
from trifold.verification.checks import CHECKS
from trifold.verification.matrix import render
from trifold.verification.report import ALL_CHECKS, Failure, OpReport, OutcomeName, Report, Row

PROPERTIES = ("rows sum to one", "shift invariant")
GALLERY = (
    *("add", "cross_entropy", "layer_norm", "mul", "normal_sample", "rms_norm", "round_ste", "sigmoid", "softmax"),
    "swiglu",
)
TWENTY = tuple(f"{'a_long_name_of_op'[: 16 - index % 3]}_{chr(ord('a') + index)}" for index in range(20))
CODE = f"import torch\n\nx = torch.tensor({[float(number) for number in range(40)]})"

Wrong = dict[tuple[str, str, str, str], OutcomeName]


def report(ops: tuple[str, ...], wrong: Wrong | None = None, *, gpu: bool) -> Report:
    """Each check passed in each cell, but for the given ones: (op, check, implementation, device)."""
    results = []
    for op in ops:
        rows: list[Row] = []
        for kind, device in CELLS:
            if device == "cuda" and not gpu:
                rows.append(Row(ALL_CHECKS, kind, device, "not run", reason="torch is a CPU build"))
                continue
            checks = ["build", *(check.name for check in CHECKS if device in check.devices)]
            for name in (*checks, *(f"property: {stated}" for stated in PROPERTIES)):
                outcome = (wrong or {}).get((op, name, kind, device), "passed")
                reason = "the spec does not claim it" if outcome == "not run" else ""
                failures = (Failure("wrong by 3", "x", CODE, 7),) if outcome == "failed" else ()
                rows.append(Row(name, kind, device, outcome, 3, reason, failures))
        results.append(OpReport(op, tuple(rows)))
    return Report("0.1", "2.13", "cpu", tuple(results), 1.0)


def shown(result: Report, width: int) -> str:
    """As in a pipe."""
    console = Console(width=width, file=StringIO())
    with console.capture() as capture:
        console.print(render(result), crop=False)
    return capture.get()


def columns(lines: list[str], first_op: str) -> dict[int, str]:
    """The names above the columns of a table of ops, by the position of their marks."""
    head = lines[: next(index for index, line in enumerate(lines) if line.startswith(first_op))]
    return {line.index("┐"): line[: line.index("┐")].strip() for line in head if "┐" in line}


@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])
@pytest.mark.parametrize("ops", [GALLERY, TWENTY], ids=["ten ops", "twenty ops"])
@pytest.mark.parametrize("width", [80, 100, 120, 400])
def test_no_name_is_cut_and_each_mark_is_there(ops: tuple[str, ...], width: int, gpu: bool) -> None:
    assert max(map(len, TWENTY)) == 18
    text = shown(report(ops, gpu=gpu), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text
    assert {op for op in ops if re.search(rf"\b{op}\b", text)} == set(ops)
    checks = ["build", *(check.name for check in CHECKS if gpu or "cpu" in check.devices), "properties"]
    if lines[0].startswith("check"):
        assert [line.split("  ")[0] for line in lines[1 : len(checks) + 1]] == checks
        return
    assert list(reversed(columns(lines, ops[0]).values())) == checks
    for op in ops:
        mine = [line for line in lines if re.match(rf"{op}  +both·", line)]
        assert [line.split()[1] for line in mine] == (["both·cpu", "both·cuda"] if gpu else ["both·cpu"])
        assert all(len(re.findall("[✓✗·]", line.partition("both·")[2])) == len(checks) for line in mine)


@pytest.mark.parametrize(("kind", "device"), CELLS)
@pytest.mark.parametrize("outcome", ["failed", "not run"])
@pytest.mark.parametrize("width", [80, 400])
def test_a_mark_stands_in_its_row_column_and_cell(kind: str, device: str, outcome: OutcomeName, width: int) -> None:
    mark = "✗" if outcome == "failed" else "·"
    lines = shown(report(TWENTY, {(TWENTY[7], "values", kind, device): outcome}, gpu=True), width).splitlines()
    if width == 400:
        at = lines[0].index(TWENTY[7]) + [each == (kind, device) for each in CELLS].index(True)
        assert next(line for line in lines if line.startswith("values"))[at] == mark
        return
    lines = lines[: lines.index("")]  # the first table: a few checks come in a further one
    at = next(at for at, name in columns(lines, TWENTY[0]).items() if name == "values")
    marks = {line.split()[1]: line[at] for line in lines if line.startswith(TWENTY[7]) and "·" in line.split()[1]}
    other_kind, other_device = {"prototype", "port"} - {kind}, {"cpu", "cuda"} - {device}
    assert marks == {f"{kind}·{device}": mark, f"{other_kind.pop()}·{device}": "✓", f"both·{other_device.pop()}": "✓"}


def test_a_name_wider_than_the_screen_is_whole_too() -> None:
    text = shown(report(("an_op_with_a_very_long_name_indeed", "add"), gpu=True), 30)
    assert "an_op_with_a_very_long_name_indeed" in text
    assert all(check.name in text for check in CHECKS)


def test_more_checks_than_fit_come_in_further_tables() -> None:
    lines = shown(report(GALLERY, gpu=True), 50).splitlines()
    table = [line for line in lines if "┐" in line or "│" in line or re.match("softmax +both·cpu", line)]
    assert max(map(len, table)) <= 50
    marks = "".join(line.partition("both·cpu")[2] for line in table).split()
    assert len(marks) == len(CHECKS) + 2


def test_properties_are_one_mark_and_named_where_one_fails() -> None:
    wrong: Wrong = {("softmax", "property: shift invariant", "port", "cpu"): "failed"}
    for width in (80, 400):
        lines = shown(report(GALLERY, wrong, gpu=False), width).splitlines()
        named = lines.index("properties of softmax")
        assert lines[named + 1 : named + 3] == ["  ✓ rows sum to one", "  ✗ shift invariant (port·cpu)"]
        assert not any("shift invariant" in line or "rows sum" in line for line in lines[: named - 1])
        assert "properties of add" not in lines


def test_of_several_properties_the_worst_is_shown() -> None:
    cases: dict[tuple[OutcomeName, OutcomeName], str] = {
        ("passed", "passed"): "✓",
        ("passed", "not run"): "·",
        ("not run", "failed"): "✗",
    }
    for outcomes, mark in cases.items():
        rows = [Row(f"property: {name}", "port", "cpu", outcome) for name, outcome in zip("ab", outcomes, strict=True)]
        lines = shown(Report("0", "2", "cpu", (OpReport("add", tuple(rows)),)), 80).splitlines()
        assert lines[1].split() == ["properties", f"··{mark}·"]


def test_code_that_reproduces_a_failure_is_whole() -> None:
    text = shown(report(("add",), {("add", "values", "port", "cpu"): "failed"}, gpu=False), 80)
    code = [line.removeprefix(" " * 6) for line in text.splitlines() if line.startswith(" " * 6)]
    assert "\n".join(code) == CODE.replace("\n\n", "\n")


def test_cells_that_did_not_run_are_all_named() -> None:
    text = " ".join(shown(report(GALLERY, {("add", "rounding", "port", "cpu"): "not run"}, gpu=False), 80).split())
    assert "all checks (prototype·cuda and port·cuda of all 10 ops): torch is a CPU build" in text
    assert "rounding (port·cpu of add): the spec does not claim it" in text


def test_checks_that_take_the_simulator_long_are_named() -> None:
    whole = report(("add", "mul"), gpu=False)
    assert "simulator long" not in shown(whole, 80)
    add, mul = whole.ops
    rows = [replace(row, seconds=200.0) if row.check == "values" else row for row in mul.rows]
    text = " ".join(shown(replace(whole, ops=(add, replace(mul, rows=tuple(rows)))), 80).split())
    assert "mul takes the simulator long (values 200 s)" in text


def test_an_op_of_which_nothing_ran_is_there() -> None:
    nothing = OpReport("mul", (Row(ALL_CHECKS, "port", "cpu", "not run", reason="interrupted"),))
    result = report(GALLERY, gpu=False)
    result = Report("0.1", "2.13", "cpu", (nothing, *(op for op in result.ops if op.op != "mul")))
    (line,) = [line for line in shown(result, 80).splitlines() if re.match("mul +no cell ", line)]
    assert set(line.split()[3:]) == {"·"}


def test_verdicts_name_their_ops() -> None:
    wrong: Wrong = {("mul", "values", "port", "cpu"): "failed", ("softmax", "fake", "port", "cpu"): "failed"}
    text = shown(report(("add", "mul", "sigmoid", "softmax"), wrong, gpu=False), 80)
    assert "add, sigmoid verified on cpu; mul, softmax failed\nfailed: " in text
