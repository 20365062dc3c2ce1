"""Only the selected measurements are made, and earlier ones are kept; the timer is a stand-in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from tests.test_bench_command import workspace_in
from trifold.bench import ops, run
from trifold.bench.command import bench
from trifold.bench.entrants import Entrant
from trifold.bench.progress import Report
from trifold.bench.rows import COMPILED, EAGER, PORT, PROTOTYPE, QUACK, ROOFLINE
from trifold.bench.timing import Competitor, Failure, Result, Timing


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    workspace_in(tmp_path)
    own = {name: Entrant(name, torch.sigmoid) for name in (PROTOTYPE, PORT)}
    monkeypatch.setattr(ops, "implementations", lambda *_: own)
    monkeypatch.setattr(run, "measure", timer())
    return tmp_path


def timer(**seconds: float) -> Callable[..., dict[str, Result]]:
    """Everyone takes 2 µs, or what is given, and prepares in none."""

    def measure(method: str, competitors: Mapping[str, Competitor], **_: Any) -> dict[str, Result]:
        return {name: Timing((seconds.get(name.partition(":")[0], 2e-6),) * 10, prepared=0.0) for name in competitors}

    return measure


def invoke(root: Path, *arguments: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Status, output and rows of the command."""
    app = typer.Typer()
    app.command()(bench)
    file = root / "results.json"
    where = ["--device", "cpu", "--workspace", str(root), "--json", str(file)]
    done = CliRunner().invoke(app, ["gate", *where, *arguments])
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    return done.exit_code, done.output + str(done.exception or ""), rows


def measured(rows: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(row["case"], row["dtype"], row["method"]) for row in rows}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            ("--shapes", "16,2^5", "--dtypes", "bfloat16", "--only", "cpu"),
            {("16", "bfloat16", "cpu"), ("32", "bfloat16", "cpu")},
            id="sizes and a dtype",
        ),
        pytest.param(
            ("--dtypes", "float32,bfloat16", "--shapes", "1000"),
            {("1000", "float32", "cpu"), ("1000", "bfloat16", "cpu")},
            id="the host's small case is no exception",
        ),
        pytest.param(("--only", "host: no grad"), {("16", "float32", "host: no grad")}, id="a text"),
        pytest.param(
            ("--methods", "host", "--only", "forward"),
            {("16", "float32", f"host: {name}") for name in ("no grad", "forward", "forward + backward")},
            id="a way to time",
        ),
    ],
)
def test_only_what_is_asked_for_is_measured(
    root: Path, arguments: tuple[str, ...], expected: set[tuple[str, str, str]]
) -> None:
    status, output, rows = invoke(root, *arguments)
    assert status == 0, output
    assert measured(rows) == expected


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(("--against", "eager,jax"), "there is no competitor 'jax'", id="an unknown rival"),
        pytest.param(("--shapes", "16x"), "'16x' is not a shape", id="half a shape"),
        pytest.param(("--shapes", "4x4"), "nothing to measure for gate with '4x4'", id="a shape that no case has"),
        pytest.param(("--methods", "clock"), "nothing to measure for gate with 'clock'", id="no way to time"),
        pytest.param(("--dtypes", "float8"), "nothing to measure for gate with 'float8'", id="a dtype of no case"),
        pytest.param(("--compare", "absent.json"), "absent.json holds no results", id="nothing to compare with"),
        pytest.param(("--limit", "half"), "--limit half", id="no limit"),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(root: Path, arguments: tuple[str, ...], says: str) -> None:
    status, output, rows = invoke(root, *arguments)
    assert status == 1
    assert says in output
    assert rows == []


@pytest.mark.parametrize(
    ("against", "expected"),
    [
        pytest.param("eager", {EAGER}, id="one"),
        pytest.param("", set(), id="none"),
        pytest.param(
            "quack,eager", {EAGER, QUACK}, id="a library on the CPU is named, with the reason that it needs a GPU"
        ),
        pytest.param("compile, prototype", {COMPILED, PROTOTYPE}, id="spaces"),
    ],
)
def test_who_is_named_competes(root: Path, against: str, expected: set[str]) -> None:
    _, _, rows = invoke(root, "--only", "forward float32 cpu 16", "--against", against)
    assert {row["competitor"] for row in rows} == {ROOFLINE, PORT} | expected
    assert {row["reason"] for row in rows if row["competitor"] == QUACK} <= {"it needs a GPU"}


def test_a_run_that_is_stopped_keeps_what_it_measured(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(100))

    def stopped(*arguments: Any, **options: Any) -> dict[str, Result]:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return timer()(*arguments, **options)

    monkeypatch.setattr(run, "measure", stopped)
    status, _, rows = invoke(root, "--only", "forward float32 cpu")
    assert status != 0
    assert [row["case"] for row in rows if row["competitor"] == PORT] == ["16", "32"]
    assert json.loads((root / "results.json").read_text(encoding="utf-8"))["environment"]["complete"] is False
    assert sorted(path.name for path in root.glob("results*")) == ["results.json"], "and no half of a file"


def test_a_run_that_was_stopped_goes_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured_now: list[int] = []

    def counting(*arguments: Any, **options: Any) -> dict[str, Result]:
        measured_now.append(1)
        if len(measured_now) == 3:
            raise KeyboardInterrupt
        return timer()(*arguments, **options)

    monkeypatch.setattr(run, "measure", counting)
    only = ("--only", "forward float32 cpu")
    assert invoke(root, *only, "--resume")[0] != 0
    measured_now[:] = [1, 1, 1]
    status, output, rows = invoke(root, *only, "--resume")
    assert status == 0, output
    assert len(measured_now) == 5, "two of the four cases"
    assert [row["case"] for row in rows if row["competitor"] == PORT] == ["16", "32", "64", "1000"]
    for case in ("16", "1000"):
        assert re.search(rf"^  {case} ", output, re.MULTILINE), "the table is whole"
    environment = json.loads((root / "results.json").read_text(encoding="utf-8"))["environment"]
    assert environment["complete"] is True
    assert len(environment["earlier"]) == 1
    assert invoke(root, *only, "--resume")[2] == rows
    assert len(measured_now) == 5, "all is there"


def test_figures_of_two_machines_do_not_come_into_one_file(root: Path) -> None:
    assert invoke(root, "--only", "forward float32 cpu 16")[0] == 0
    path = root / "results.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["environment"]["device"] = "another"
    path.write_text(json.dumps(document), encoding="utf-8")
    status, output, rows = invoke(root, "--only", "forward float32 cpu 32", "--resume")
    assert status == 1
    assert "--resume: the file's device is another, this run's is " in output
    assert {row["case"] for row in rows} == {"16"}, "and the file stays"


def test_figures_of_two_versions_of_an_op_do_not_come_into_one_file(root: Path) -> None:
    assert invoke(root, "--only", "forward float32 cpu 16")[0] == 0
    header = root / "cuda_src" / "gate.cuh"
    header.write_text(header.read_text(encoding="utf-8") + "// another comment\n", encoding="utf-8")
    assert invoke(root, "--only", "forward float32 cpu 32", "--resume")[0] == 0
    header.write_text(header.read_text(encoding="utf-8") + "namespace more {}\n", encoding="utf-8")
    status, output, rows = invoke(root, "--only", "forward float32 cpu 64", "--resume")
    assert status == 1
    assert "--resume: cuda_src/gate.cuh changed since the file was begun" in output
    assert {row["case"] for row in rows} == {"16", "32"}


def test_a_gpu_that_no_longer_answers_ends_the_run_with_what_to_do(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(device: torch.device) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be ...")

    monkeypatch.setattr(run, "release", lost)
    status, output, rows = invoke(root, "--only", "forward float32 cpu 16")
    assert status == 1
    assert "gate forward float32 cpu 16: RuntimeError: CUDA error: an illegal memory access" in output
    assert "--against" in output
    assert rows == []


def test_progress_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []
    report = Report(2, shown.append)
    assert list(report.steps(["a", "b"], str)) == ["a", "b"]
    report.text("a table")
    assert shown == ["a table"]
    assert capsys.readouterr() == ("", "")


def test_a_whole_run_says_so_and_what_compiling_took(root: Path) -> None:
    _, output, _ = invoke(root, "--only", "forward float32 cpu")
    assert json.loads((root / "results.json").read_text(encoding="utf-8"))["environment"]["complete"] is True
    assert "First calls, which compile, took in all:" in output


def test_compare_ends_with_its_status(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = ("--only", "forward float32 cpu")
    assert invoke(root, *only)[0] == 0
    before = root / "before.json"
    (root / "results.json").rename(before)
    assert invoke(root, *only, "--compare", str(before))[0] == 0
    monkeypatch.setattr(run, "measure", timer(port=3e-6))
    status, output, _ = invoke(root, *only, "--compare", str(before))
    assert status == 1
    assert len(re.findall(r"gate · forward · float32 · cpu .* 33\.3%", output)) == 4
    assert invoke(root, *only, "--compare", str(before), "--limit", "40%")[0] == 0
    assert invoke(root, "--only", "backward bfloat16 cpu", "--compare", str(before))[0] == 2


@pytest.mark.parametrize(
    ("seconds", "outcome"),
    [
        pytest.param(1.1e-6, "measured", id="twice the rate is the limit"),
        pytest.param(1e-8, "failed", id="a graph without its kernels"),
    ],
)
def test_what_is_faster_than_memory_is_no_measurement(seconds: float, outcome: str) -> None:
    result = run._plausible(Timing((seconds,) * 10), Timing((2e-6,) * 10))
    assert isinstance(result, Failure if outcome == "failed" else Timing)
    if isinstance(result, Failure):
        assert result.reason == "200 × the memory's rate: its kernels are not in the CUDA graph"
