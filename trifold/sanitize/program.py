"""Runs a CUDA program that was built for the CPU, and gathers what its checks report (engine/cpu/program_report.h)."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from trifold import places
from trifold.acceptance import Acceptance, Accepted, configured_suppressions, for_engine
from trifold.build import diagnostics, text
from trifold.errors import BuildError, of_signal
from trifold.findings import Finding, from_json
from trifold.limits import capability_name, limits_of
from trifold.own_process import end_with_parent


@dataclass(frozen=True)
class Note:
    """Other reports of a run: a problem of the program's own code, which fails it, or a remark."""

    kind: Literal["problem", "remark"]
    says: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.says}"


@dataclass
class ProgramReport:
    """The result of running a program.

    Attributes:
        program, arguments: what ran.
        status: the program's exit status; negative: the signal that ended it, which is a problem.
        entries: findings, problems and remarks, in order.
        allowed: findings that the user accepts in the files that ran.
        seconds: its duration.
    """

    program: Path
    arguments: tuple[str, ...]
    status: int = 0
    entries: list[Finding | Note] = field(default_factory=list)
    allowed: tuple[Acceptance, ...] = ()
    seconds: float = 0.0

    def add(self, each: Finding | Note) -> bool:
        """Whether it is new: not a finding at a known place."""
        known = len(self.findings)
        self.entries.append(each)
        return isinstance(each, Note) or len(self.findings) > known

    @property
    def findings(self) -> list[Finding]:
        """The first of each place, with the count of all."""
        return places.merged(each for each in self.entries if isinstance(each, Finding))

    @property
    def errors(self) -> list[Finding]:
        """Findings that are errors and that the user does not accept."""
        return [finding for finding in self.findings if finding.is_mistake]

    @property
    def unmet(self) -> list[str]:
        """The user's acceptances, and those that did not occur."""
        return places.unmet(self.findings, map(asdict, self.allowed))

    @property
    def problems(self) -> list[str]:
        return [each.says for each in self.entries if isinstance(each, Note) and each.kind == "problem"]

    @property
    def remarks(self) -> list[str]:
        return [each.says for each in self.entries if isinstance(each, Note) and each.kind == "remark"]

    @property
    def failed(self) -> bool:
        """Whether a check found an error, or the program has a problem."""
        return bool(self.errors or self.problems)

    @property
    def exit_status(self) -> int:
        """1 if the run failed, else the program's own."""
        return 1 if self.failed else self.status

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "program": str(self.program),
            "arguments": list(self.arguments),
            "verdict": "failed" if self.failed else "clean",
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "findings": [finding.to_json() for finding in self.findings],
            "problems": self.problems,
            "remarks": self.remarks,
            "allowed but did not occur": self.unmet,
        }


def sanitize(
    program: Path,
    arguments: Sequence[str] = (),
    *,
    options: Sequence[str] = (),
    seed: int = 0,
    schedules: int = 1,
    keep_going: bool = False,
    timeout: float | None = None,
    compute_capability: str | None = None,
    suppressions: Path | None = None,
    on_entry: Callable[[Finding | Note], object] = lambda each: None,
) -> ProgramReport:
    """Compile a CUDA program for the CPU and run it with all checks; its input and output are this process's.

    Args:
        program: its file, which has ``main``; files that it includes from its own folder belong to it.
        arguments: the program's.
        options: ``-D``, ``-U``, ``-I`` and ``-std`` for the compiler; C++17 is the default, as nvcc's.
        seed: of the order of blocks and threads; 0 is the natural one.
        schedules: orders in which each launch runs, from the same contents of the device's memory.
        keep_going: after an error in a kernel, continue with it, but skip accesses that must not happen. Otherwise
            every later call of CUDA fails, as on a GPU.
        timeout: seconds after which the program is ended.
        compute_capability: of the GPU whose limits and properties the program sees, and for which its device code is
            compiled (``__CUDA_ARCH__``); default: 9.0, or the environment variable TRIFOLD_COMPUTE_CAPABILITY.
        suppressions: a file of accepted findings, in addition to those that comments of the program accept; default:
            that of the project of the current folder (:mod:`trifold.acceptance`).
        on_entry: called with each finding, problem and remark when it occurs; for findings of one place with the first.

    Raises:
        AcceptanceError: a comment or the file accepts something that is not a finding.
        BuildError: it does not compile, has no ``main``, or has a feature that the CPU lacks.
        ToolchainError: g++ is missing or too old.
        LaunchError: the compute capability is unknown.
    """
    device = " ".join(map(str, limits_of(compute_capability)))
    if not program.is_file():
        raise BuildError(f"there is no file {program}", "name a CUDA program")
    accepted = _accepted(program, options, suppressions)
    built = text.build_program(program, options, capability_name(compute_capability))
    report = ProgramReport(program, tuple(arguments), allowed=accepted)

    def add(each: Finding | Note) -> None:
        if report.add(each):
            on_entry(each)

    reading, writing = os.pipe()
    options_of_run = f"{writing} {seed} {schedules} {int(keep_going)} {device}"
    started = time.monotonic()
    with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        try:
            process = subprocess.Popen(
                [str(built.path), *arguments],
                env={**os.environ, "TRIFOLD_PROGRAM": options_of_run, "TRIFOLD_ACCEPTED": for_engine(accepted)},
                pass_fds=[writing],
                preexec_fn=end_with_parent,
            )
        finally:
            os.close(writing)
        listener = threading.Thread(target=_listen, args=(lines, add), daemon=True)
        listener.start()
        report.status, in_time = _wait(process, timeout)
        listener.join(timeout=10)  # a process that the program left running may hold the pipe
    report.seconds = time.monotonic() - started
    place = diagnostics.shown(program.resolve())
    if not in_time:
        add(Note("problem", f"{place} did not end within {timeout:g} s, and was ended"))
    elif report.status < 0 and not report.failed:
        add(Note("problem", f"{place} was ended by the signal {of_signal(-report.status)}"))
    return report


def _accepted(program: Path, options: Sequence[str], suppressions: Path | None) -> tuple[Acceptance, ...]:
    accepted = Accepted(lambda text: None)
    accepted.suppress(suppressions or configured_suppressions(Path.cwd()))
    accepted.take_files(text.files_of_program(program, options))
    return tuple(accepted.used.values())


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[int, bool]:
    """Its exit status, and whether it ended by itself."""
    try:
        return process.wait(timeout), True
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(), False
    except BaseException:  # on an interrupt, which the program received too
        process.kill()
        process.wait()
        raise


def _listen(lines: Any, add: Callable[[Finding | Note], None]) -> None:
    for line in lines:
        kind, _, content = line.rstrip("\n").partition("\t")
        if kind == "finding":
            add(from_json(json.loads(content)))
        else:
            add(Note("problem" if kind == "problem" else "remark", content))
