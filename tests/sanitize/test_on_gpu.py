"""``trifold sanitize --gpu`` on a GPU, and its exit status where it cannot run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trifold import compute_sanitizer
from trifold.compute_sanitizer import TOOLS
from trifold.errors import ToolchainError
from trifold.verification.verify import verify

ROOT = Path(__file__).parents[2]
MISTAKES = Path(__file__).with_name("mistakes.cu")
KINDS = {
    "memcheck": "out-of-bounds",
    "racecheck": "race",
    "initcheck": "uninitialised read",
    "synccheck": "barrier divergence",
}


def _can_run() -> bool:
    try:
        compute_sanitizer.find()
    except ToolchainError:
        return False
    return torch.cuda.is_available()


on_gpu = pytest.mark.skipif(not _can_run(), reason="there is no CUDA device here, or no compute-sanitizer")


def sanitize(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trifold", "sanitize", "--gpu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_finds_its_mistake_at_its_line(tool: str, tmp_path: Path) -> None:
    done = sanitize("--json", str(tmp_path / "report.json"), str(MISTAKES), tool)
    assert done.returncode == 1, done.stderr
    (subject,) = json.loads((tmp_path / "report.json").read_text())["subjects"]
    finding = subject["tools"][tool]["findings"][0]
    assert finding["kind"] == KINDS[tool]
    line = finding["accesses"][0]["line"]
    assert MISTAKES.read_text().splitlines()[line - 1].endswith(f"// {tool}"), done.stderr
    assert Path(finding["accesses"][0]["file"]).name == MISTAKES.name
    assert finding["message"] in done.stderr


@pytest.mark.gpu
@on_gpu
def test_a_program_without_a_mistake_is_clean_and_prints_once() -> None:
    done = sanitize(str(MISTAKES))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.gpu
@on_gpu
def test_the_samples_of_an_op_are_clean(tmp_path: Path) -> None:
    done = sanitize("--json", str(tmp_path / "report.json"), "sigmoid")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "clean"
    assert set(report["subjects"][0]["tools"]) == set(TOOLS)


@pytest.mark.gpu
@pytest.mark.slow(seconds=150)
@on_gpu
def test_right_kernels_have_no_finding_under_verify() -> None:
    (report,) = verify("sigmoid", workspace=ROOT, devices=["cuda"], checks=["findings"]).ops
    rows = [row for row in report.rows if row.check == "findings"]
    assert [(row.implementation, row.outcome) for row in rows] == [("prototype", "passed"), ("port", "passed")], rows
    for row in rows:
        assert row.reason.startswith("compute-sanitizer 2")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("what", ["sigmoid", "tests/sanitize/mistakes.cu"])
def test_without_a_gpu_it_says_so(what: str) -> None:
    done = sanitize(what)
    assert done.returncode == 2
    assert "--gpu needs a CUDA device" in done.stderr
    assert "trifold doctor" in done.stderr


@pytest.mark.parametrize("arguments", [("--seed", "3", "sigmoid"), ("sigmoid", "--seed", "3")])
def test_an_order_of_the_cpu_is_refused(arguments: tuple[str, ...]) -> None:
    done = sanitize(*arguments)
    assert done.returncode == 2
    assert "are for the CPU; a GPU has its own order" in done.stderr
