"""CUDA graphs of whole programs on the CPU (trifold/cpu/runtime_graphs.h)."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAM = Path(__file__).with_name("programs") / "graphs.cu"


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_a_graph_runs_each_node_after_those_that_it_depends_on(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM, seed=seed)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == "captured 1, 4 nodes, 2 roots, 0, then 13\nmade 32 5 10, 3 calls\n"


@pytest.mark.parametrize(
    ("mistake", "problem", "line", "error"),
    [
        (
            "unjoined",
            "another stream of the capture has work",
            "cudaStreamEndCapture",
            "cudaErrorStreamCaptureUnjoined",
        ),
        ("waits", "a call that waits for the device", "cudaDeviceSynchronize", "cudaErrorStreamCaptureInvalidated"),
        ("default stream", "work for the default stream", "scale<<<1, n>>>(x", "cudaErrorStreamCaptureInvalidated"),
        ("event", "waited for on the host", "cudaEventSynchronize", "cudaErrorStreamCaptureInvalidated"),
    ],
)
def test_a_capture_that_a_gpu_would_refuse(
    mistake: str, problem: str, line: str, error: str, capfd: pytest.CaptureFixture[str]
) -> None:
    report = sanitize(PROGRAM, [mistake])
    (shown,) = report.problems
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    number = next(i for i, text in enumerate(lines, 1) if line in text and "CHECK" not in text)
    assert problem in shown
    assert shown.endswith(f"graphs.cu:{number}")
    assert (report.exit_status, capfd.readouterr().out) == (1, f"{error}\n")
