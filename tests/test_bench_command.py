"""``trifold bench`` on the CPU, with functions in the place of prototype and port."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from torch import Tensor
from typer.testing import CliRunner

from trifold.bench import ops
from trifold.bench.command import bench
from trifold.bench.entrants import Entrant
from trifold.bench.ops import acceptable, measure_ops
from trifold.bench.rows import EAGER, PORT, PROTOTYPE, ROOFLINE, Results
from trifold.bench.run import Selection
from trifold.errors import SpecError, TrifoldError
from trifold.workspace import FOLDERS, Workspace

SPEC = """
from types import SimpleNamespace
import torch
from trifold.spec.benchmark import Case, elementwise_benchmarks
spec = SimpleNamespace(benchmarks=elementwise_benchmarks(torch.sigmoid, backward_moves=3, cases=(
    Case("16", (16,)), Case("32", (32,)), Case("64", (64,)), Case("1000", (1000,)))))
"""


def workspace_in(root: Path) -> Workspace:
    """With one op, gate, of which only the spec is more than an empty file."""
    for folder in FOLDERS.values():
        (root / folder).mkdir()
    for path in ("prototypes/gate.py", "cuda_src/gate.cuh", "cuda_src/gate.cu", "ports/gate.py"):
        (root / path).touch()
    (root / "verify/gate.py").write_text(SPEC, encoding="utf-8")
    return Workspace.at(root)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return workspace_in(tmp_path)


def broken(x: Tensor) -> Tensor:
    raise RuntimeError("the launch failed")


@pytest.fixture
def compete(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def use(prototype: Callable[..., Any] = torch.sigmoid, port: Callable[..., Any] = torch.sigmoid) -> None:
        found = {PROTOTYPE: Entrant(PROTOTYPE, prototype, at_most=512), PORT: Entrant(PORT, port)}
        monkeypatch.setattr(ops, "implementations", lambda *_: found)

    return use


def quick(workspace: Workspace, only: str = "", **other: Any) -> Results:
    return measure_ops(
        workspace, [], "cpu", selection=Selection(only, quick=True), **({"against": ("eager", "prototype")} | other)
    )


def test_every_competitor_stands_in_every_case(workspace: Workspace, compete: Callable[..., None]) -> None:
    compete()
    shown: list[str] = []
    results = quick(workspace, only="float32", show=shown.append)
    cases: dict[tuple[str, str, str], set[str]] = {}
    for row in results.rows:
        cases.setdefault((row.benchmark, row.method, row.case), set()).add(row.competitor)
    assert {key[2] for key in cases if key[1] == "cpu"} == {"16", "64", "1000"}, "three of the four cases"
    for (_, method, _), competitors in cases.items():
        expected = {EAGER, PROTOTYPE, PORT} | ({ROOFLINE} if method == "cpu" else set())
        assert competitors == expected
    assert {key[1] for key in cases} == {"cpu", "host: no grad", "host: forward", "host: forward + backward"}
    assert sum("gate · backward" in part for part in shown) == 1
    assert acceptable(results)


def test_a_simulated_prototype_is_left_out_where_the_case_is_large(
    workspace: Workspace, compete: Callable[..., None]
) -> None:
    compete()
    rows = [row for row in quick(workspace, only="forward float32 cpu").rows if row.competitor == PROTOTYPE]
    assert {row.case: row.outcome for row in rows} == {"16": "measured", "64": "measured", "1000": "not run"}
    assert "simulator" in rows[-1].reason


def test_a_port_that_raises_fails_with_its_reason_and_stops_nobody(
    workspace: Workspace, compete: Callable[..., None]
) -> None:
    compete(port=broken)
    results = quick(workspace, only="forward float32 cpu 16")
    outcomes = {row.competitor: row.outcome for row in results.rows}
    assert outcomes == {ROOFLINE: "measured", EAGER: "measured", PROTOTYPE: "measured", PORT: "failed"}
    assert [row.reason for row in results.rows if row.outcome == "failed"] == ["RuntimeError: the launch failed"]
    assert not acceptable(results)


def test_a_backward_pass_needs_a_gradient(workspace: Workspace, compete: Callable[..., None]) -> None:
    compete(port=lambda x: torch.sigmoid(x.detach()))
    rows = quick(workspace, only="gate backward float32 cpu 16").rows
    assert {row.competitor: row.outcome for row in rows}[PORT] == "failed"


def test_the_command_writes_json_and_plot_and_checks(
    workspace: Workspace, compete: Callable[..., None], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    compete(port=broken)
    app = typer.Typer()
    app.command()(bench)
    files = ["--json", str(tmp_path / "out" / "r.json"), "--plot", str(tmp_path / "out" / "r.png")]
    arguments = ["gate", "--device", "cpu", "--quick", "--against", "eager,prototype", "--only", "forward float32 cpu"]
    done = CliRunner().invoke(app, [*arguments, *files, "--check", "--workspace", str(workspace.root)])
    assert done.exit_code == 1, done.output
    assert "RuntimeError: the launch failed" in done.output
    document = json.loads((tmp_path / "out" / "r.json").read_text(encoding="utf-8"))
    assert {"device", "driver", "torch", "cuda", "numba", "numba_cuda", "commit", "dirty", "date"} <= set(
        document["environment"]
    )
    assert "cuda_src/gate.cuh" in document["environment"]["sources"]
    assert (tmp_path / "out" / "r.png").exists()


def test_training_is_both_passes_together(workspace: Workspace, compete: Callable[..., None]) -> None:
    passes: list[str] = []

    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            passes.append("forward")
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            passes.append("backward")
            return grad.clone()

    compete(port=Gate.apply)
    spec = "from dataclasses import replace\n" + SPEC
    spec += "spec.benchmarks = (replace(spec.benchmarks[0], name='training', training=True),)\n"
    (workspace.root / "verify/gate.py").write_text(spec, encoding="utf-8")
    rows = quick(workspace, only="gate training float32 cpu 16", against=("eager",)).rows
    assert {row.competitor: row.outcome for row in rows} == dict.fromkeys((ROOFLINE, EAGER, PORT), "measured")
    assert passes[-2:] == ["forward", "backward"], "the last call"


def test_nothing_to_measure_is_said(workspace: Workspace, compete: Callable[..., None]) -> None:
    compete()
    with pytest.raises(SpecError, match="nothing to measure for gate with 'cubes'"):
        quick(workspace, only="cubes")


def test_a_gpu_that_is_absent_is_said(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TrifoldError, match="sees no GPU"):
        measure_ops(workspace, [], "cuda")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param("", "has no spec with benchmarks", id="no spec"),
        pytest.param(SPEC + "spec.benchmarks = ['forward']\n", "has no spec with benchmarks", id="not a benchmark"),
        pytest.param(SPEC + "spec.benchmarks += spec.benchmarks\n", "two benchmarks have one name", id="a name twice"),
    ],
)
def test_a_wrong_spec_is_named(workspace: Workspace, spec: str, problem: str) -> None:
    (workspace.root / "verify/gate.py").write_text(spec, encoding="utf-8")
    with pytest.raises(SpecError, match=problem):
        quick(workspace)


def test_arguments_that_cannot_be_made_fail_every_competitor(
    workspace: Workspace, compete: Callable[..., None]
) -> None:
    compete()
    wrong = SPEC.replace("(16,)", "(-1,)")
    (workspace.root / "verify/gate.py").write_text(wrong, encoding="utf-8")
    rows = quick(workspace, only="forward float32 cpu 16").rows
    assert {row.outcome for row in rows} == {"failed"}
    assert "its arguments cannot be made" in rows[0].reason
