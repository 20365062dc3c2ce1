"""``trifold sanitize --gpu``: an op's samples, or a whole program, under compute-sanitizer's four tools."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from trifold import compute_sanitizer, own_process
from trifold.build.program import build_with_nvcc
from trifold.compute_sanitizer import TOOLS, ToolRun
from trifold.errors import BuildError, ToolchainError
from trifold.findings import Finding
from trifold.implementation import load_port
from trifold.workspace import Workspace

_LAST_CHARACTERS = 2000  # of a worker's output, shown if it failed


@dataclass(frozen=True)
class GpuReport:
    """The results of the tools for one op or program.

    Attributes:
        subject: the op's name, or the program's path.
        runs: one of each tool.
    """

    subject: str
    runs: tuple[ToolRun, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for run in self.runs for finding in run.report.findings)

    @property
    def problems(self) -> tuple[str, ...]:
        """The tools' output other than findings, each text once."""
        return tuple(dict.fromkeys(problem for run in self.runs for problem in run.problems))

    @property
    def outcome(self) -> Literal["passed", "failed", "not run"]:
        if any(finding.severity == "error" for finding in self.findings) or any(not run.in_time for run in self.runs):
            return "failed"
        return "not run" if self.problems else "passed"

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "subject": self.subject,
            "outcome": self.outcome,
            "problems": list(self.problems),
            "tools": {
                run.tool: {"status": run.status, "findings": [finding.to_json() for finding in run.report.findings]}
                for run in self.runs
            },
        }


def require_gpu() -> Path:
    """The path of compute-sanitizer.

    Raises:
        ToolchainError: there is no GPU here, or no compute-sanitizer.
    """
    if not torch.cuda.is_available():
        raise ToolchainError(
            "--gpu needs a CUDA device, and torch sees none",
            "omit --gpu to check on the CPU, or see what `trifold doctor` reports on the GPU",
        )
    return compute_sanitizer.find()


def sanitize_op(workspace: Workspace, op: str, timeout: float, on_step: Callable[[str], object]) -> GpuReport:
    """Run an op's samples under each tool, in separate processes, with torch's memory cache off.

    Args:
        timeout: seconds for one tool's run.
        on_step: called with the name of each step.

    Raises:
        ToolchainError: there is no GPU here, or no compute-sanitizer.
        BuildError: the port does not compile.
        WorkspaceError: there is no such op.
    """
    sanitizer = require_gpu()
    on_step(f"{op}: nvcc builds it")
    load_port(workspace.op(op)).kernels("cuda")  # here, since a tool would trace the compilers too
    command = own_process.command("trifold.sanitize.op_worker", op, str(workspace.root))
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    runs = []
    for tool in TOOLS:
        on_step(f"{op}: {tool}")
        options = ["--destroy-on-device-error=kernel"]  # the next sample is run all the same
        # torch queries features that a driver may lack.
        options += ["--report-api-errors=no"] if tool == "memcheck" else []
        with tempfile.TemporaryFile("w+", errors="replace") as printed:
            run = compute_sanitizer.run(
                sanitizer,
                tool,
                command,
                options=options,
                timeout=timeout,
                environment=environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
            if run.status != 0 and not run.report.findings:
                printed.seek(0)
                on_step(printed.read()[-_LAST_CHARACTERS:])
        runs.append(run)
    return GpuReport(op, tuple(runs))


def sanitize_program(
    program: Path,
    arguments: Sequence[str],
    *,
    options: Sequence[str],
    keep_going: bool,
    timeout: float | None,
    on_step: Callable[[str], object],
) -> GpuReport:
    """Compile a CUDA program with nvcc and run it under each tool. Its input and output are those of the first run.

    Raises:
        ToolchainError: there is no GPU here, or no compute-sanitizer, or no nvcc.
        BuildError: it does not compile.
    """
    if not program.is_file():
        raise BuildError(f"there is no file {program}", "name a CUDA program")
    sanitizer = require_gpu()
    major, minor = torch.cuda.get_device_capability()
    built = build_with_nvcc(program, f"sm_{major}{minor}", options)
    on_error = f"--destroy-on-device-error={'kernel' if keep_going else 'context'}"
    silent: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    runs: list[ToolRun] = []
    for tool in TOOLS:
        on_step(f"{program}: {tool}")
        streams = silent if runs else {}
        command = [str(built.path), *arguments]
        runs.append(compute_sanitizer.run(sanitizer, tool, command, options=[on_error], timeout=timeout, **streams))
    return GpuReport(str(program), tuple(runs))
