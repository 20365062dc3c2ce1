"""A kernel that is not drafted runs in the interpreter, and is named; what was built once is not built again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.simulator.compiled import kernels
from trifold import simulator
from trifold.simulator.compiled import fallbacks, interpreted

PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def double(x, last):
    x[cuda.grid(1)] *= 2
    last[0] = cuda.grid(1)  # trifold: allow race, any of them will do

@cuda.jit
def tell(x):
    print(x[0])

x = np.ones(32)
double[1, 32](x, np.zeros(1))
tell[1, 1](x)
"""


def reason(name: str) -> str:
    return next(reason for kernel, reason in interpreted().items() if kernel.startswith(f"{name} at "))


def test_an_interpreted_kernel_and_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with simulator.options(compiled=True):
        kernels.prints[1, 1](np.ones(1))
    assert capsys.readouterr().out == "1.0\n"
    assert "print is not translated" in reason("prints")


def test_some_checks_are_the_interpreters() -> None:
    with simulator.options(compiled=True, checks="race"):
        kernels.warps[1, 32](0, np.arange(32.0), np.zeros(33))
    assert reason("warps") == "compiled kernels have all checks or none, not race"


def test_where_it_is_refused_the_launch_raises_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.ones(1)
    with simulator.options(compiled=True, checks="none"):
        with (
            fallbacks.refused(),
            pytest.raises(fallbacks.NotCompiledError, match=r"prints cannot run .* not translated"),
        ):
            kernels.prints[1, 1](x)
        assert capsys.readouterr().out == ""
        kernels.prints[1, 1](x)
    assert capsys.readouterr().out == "1.0\n"


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    first = _run(tmp_path)
    assert (first.returncode, first.stdout) == (0, "2.0\n")
    assert first.stderr.splitlines() == [
        "accepted by program.py:8: race on last in double at program.py:8, 31 times: any of them will do",
        "trifold.simulator: in the interpreter: tell at program.py:10 (program.py:12: print is not translated)",
    ]
    builds = _builds(tmp_path)
    assert len(builds) == 2  # with the screen, and with all checks
    again = _run(tmp_path)
    assert (again.stdout, again.stderr) == (first.stdout, first.stderr)
    assert _builds(tmp_path) == builds


def _builds(folder: Path) -> dict[str, int]:
    """The finished builds, and when each was made."""
    made = (folder / "cache" / "builds").glob("*/*.so")
    return {file.name: file.stat().st_mtime_ns for file in made}


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TRIFOLD_", "NUMBA_"))}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[3]), "TRIFOLD_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-m", "trifold.simulator", "--compiled", "program.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
