"""Runs a program under compute-sanitizer, one tool at a time."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trifold.build import toolchain
from trifold.compute_sanitizer.report import ToolReport, parse
from trifold.errors import ToolchainError

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
INSTALL = (
    "apt-get install cuda-sanitizer-13-0 (of your CUDA's version), or pip install nvidia-cuda-sanitizer-api, or set "
    "CUDA_HOME to a toolkit that has it"
)

_EVERY_TOOL = (
    "--strip-paths=no",
    "--show-backtrace=device",
    "--target-processes=application-only",
    "--max-connections=100",  # the default of 10 is too low for runs in parallel
    # Wait without a limit until the program uses CUDA: after one, the tool ends and the program waits for it forever.
    "--launch-timeout=0",
)
_OPTIONS = {
    # Each array is followed by memory that must not be accessed: an index past one array does not reach the next.
    "memcheck": ("--padding=1024", "--print-limit=1000"),
    # Each hazard names its two threads; the analysis only names lines, but is printed when there are too many hazards,
    # which are counted per byte.
    "racecheck": ("--racecheck-report=all", "--print-limit=100000"),
    # A copy of partly uninitialised memory is not an error of a kernel.
    "initcheck": ("--check-api-memory-access=no", "--print-limit=1000"),
    "synccheck": ("--print-limit=1000",),
}


# Options that old versions refuse.
_NEWER_OPTIONS = {
    "initcheck": ("--initcheck-address-space=all",),  # shared memory, too
}


@dataclass(frozen=True)
class ToolRun:
    """The result of running a program under one tool.

    Attributes:
        status: the program's exit status; negative: of a signal.
        in_time: it ended by itself.
        text: the tool's output.
        report: the same as findings.
    """

    tool: str
    status: int
    in_time: bool
    text: str
    report: ToolReport

    @property
    def problems(self) -> tuple[str, ...]:
        """The tool's other messages; if it did not finish, that."""
        if not self.in_time:
            return (*self.report.problems, f"{self.tool}: the program did not end in time, and was ended")
        if not self.report.complete:
            return (*self.report.problems, f"{self.tool} ended without a summary, with exit status {self.status}")
        return self.report.problems


def find() -> Path:
    """compute-sanitizer of the package ``nvidia-cuda-sanitizer-api``, else of ``$CUDA_HOME`` or ``$CUDA_PATH``, else on
    PATH, else of nvcc's toolkit. It is not run.

    Raises:
        ToolchainError: there is none.
    """
    candidates = _of_package()
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    candidates += [place for home in homes for place in _places_in(home)]
    on_path = shutil.which("compute-sanitizer")
    candidates += [Path(on_path)] if on_path else []
    try:
        candidates += _places_in(toolchain.find_nvcc().home)
    except ToolchainError:
        candidates += _places_in(Path("/usr/local/cuda"))
    for place in candidates:
        if place.is_file() and os.access(place, os.X_OK):
            return place.absolute()
    raise ToolchainError(
        "compute-sanitizer is not installed as a package, nor on PATH, nor in the CUDA toolkit", INSTALL
    )


def _of_package() -> list[Path]:
    """NVIDIA's packages of one major version of CUDA share a folder: ``nvidia/cu13``."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or () if spec is not None else ())]
    return [place for folder in folders for place in sorted(folder.glob("cu*/bin/compute-sanitizer"), reverse=True)]


def _places_in(home: Path) -> tuple[Path, ...]:
    return home / "bin" / "compute-sanitizer", home / "compute-sanitizer" / "compute-sanitizer"


@functools.cache
def version(sanitizer: Path) -> str:
    """The version in ``--version``, such as "2026.4.0.0"; "" if there is none."""
    found = re.search(r"Version (\d[\d.]*)", _printed(sanitizer, "--version"))
    return found[1] if found else ""


@functools.cache
def _help(sanitizer: Path) -> str:
    return _printed(sanitizer, "--help")


def _printed(sanitizer: Path, option: str) -> str:
    try:
        done = subprocess.run([str(sanitizer), option], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def prefix(sanitizer: Path, tool: str, log: Path, options: Sequence[str] = ()) -> list[str]:
    """The beginning of a command that runs under ``tool``, which writes to ``log``."""
    newer = [o for o in _NEWER_OPTIONS.get(tool, ()) if o.partition("=")[0] in _help(sanitizer)]
    return [str(sanitizer), f"--tool={tool}", f"--log-file={log}", *_EVERY_TOOL, *_OPTIONS[tool], *newer, *options]


def run(
    sanitizer: Path,
    tool: str,
    command: Sequence[str],
    *,
    options: Sequence[str] = (),
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    **streams: Any,
) -> ToolRun:
    """Run ``command`` under ``tool``.

    Args:
        sanitizer: from :func:`find`.
        options: more options for compute-sanitizer.
        timeout: seconds after which the program and the tool are ended; a kernel may hang.
        environment: of the program, if not this process's.
        streams: ``stdin``, ``stdout`` and ``stderr``, as for :class:`subprocess.Popen`.
    """
    with tempfile.TemporaryDirectory(prefix="trifold-sanitize-") as folder:
        log = Path(folder) / "report.txt"
        line = [*prefix(sanitizer, tool, log, options), *command]
        process = subprocess.Popen(line, env=environment, start_new_session=True, **streams)
        try:
            process.wait(timeout)
            in_time = True
        except subprocess.TimeoutExpired:
            in_time = False
        finally:  # also on an interrupt, which the new session did not receive
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return ToolRun(tool, process.returncode, in_time, text, parse(text, tool))
