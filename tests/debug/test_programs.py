"""Programs in the simulator, under the debuggers and tools that people start them with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from tests.debug.programs import ENVIRONMENT, ROOT, line_of
from tests.debug.programs import FOLDER as PROGRAMS

FAULT = line_of("following =", PROGRAMS / "faulty.py")


def python(*arguments: str | Path, commands: tuple[str, ...] = (), folder: Path = ROOT, **variables: str) -> str:
    """Return a program's output on both streams."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        input="".join(f"{command}\n" for command in commands),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=ENVIRONMENT | variables,
        timeout=30,
    )
    return done.stdout


def test_breakpoint_in_a_kernel() -> None:
    shown = python(
        *("-m", "trifold.simulator", PROGRAMS / "stops.py"),
        commands=("p cuda.threadIdx, cuda.blockIdx", *"nnn", "p value, i", "w", "c"),
    )
    assert "thread (1, 0, 0) of block (1, 0, 0)" in shown
    assert "(cuda.threadIdx(1, 0, 0), cuda.blockIdx(1, 0, 0))" in shown
    assert "2.5" in shown and "stops.py(19)<module>()" in shown
    assert "/trifold/" not in shown and "ended 14.0" in shown, shown


def test_pdb_runs_the_simulator() -> None:
    line = line_of("value = x[t]", PROGRAMS / "rotate.py")
    shown = python(
        *("-m", "pdb", "-m", "trifold.simulator", PROGRAMS / "rotate.py"),
        commands=(f"b {PROGRAMS / 'rotate.py'}:{line}, cuda.threadIdx.x == 6", "c", "p t", *"nn", "p t", "q"),
    )
    assert shown.count("(Pdb) 6") == 2, shown
    assert "-> other = doubled(other)" in shown, shown


def test_post_mortem_is_in_the_faulting_thread() -> None:
    shown = python(
        *("-m", "pdb", PROGRAMS / "faulty.py"),
        commands=("c", "p i", "up", "p i", "up", "w", "q"),
        TRIFOLD_SIMULATOR="1",
    )
    assert f"faulty.py({FAULT})next_of()" in shown and shown.count("(Pdb) 6") == 2, shown
    assert "thread (6, 0, 0)" in shown, shown


def test_a_fault_of_another_thread_stops_a_step() -> None:
    shown = python(
        *("-m", "pdb", PROGRAMS / "faulty.py"),
        commands=("b shift", "c", *"nnn", "n", "down", "p i", "q", "q"),
        TRIFOLD_SIMULATOR="1",
    )
    assert f"faulty.py({line_of('shift[1', PROGRAMS / 'faulty.py')})test_shift()" in shown, shown
    assert "thread (6, 0, 0)" in shown, shown
    assert "(Pdb) 6" in shown, shown


def test_pytest_pdb_is_in_the_faulting_thread(tmp_path: Path) -> None:
    test = tmp_path / "test_faulty.py"
    test.write_text((PROGRAMS / "faulty.py").read_text(encoding="utf-8"), encoding="utf-8")
    shown = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--simulator", "--pdb", test),
        commands=("p i", "up", "p y.shape", "w", "q"),
        folder=tmp_path,
    )
    assert f"test_faulty.py({FAULT})next_of()" in shown and "(Pdb) 6" in shown and "(Pdb) (7,)" in shown, shown
    assert "/trifold/" not in shown.partition("(Pdb)")[2], shown


def test_breakpoint_under_pytest(tmp_path: Path) -> None:
    text = (PROGRAMS / "stops.py").read_text(encoding="utf-8")
    head, body = text.split("\n\n\nx = ")
    test = "def test_halve():\n" + indent(f"x = {body}", "    ")
    (tmp_path / "test_stops.py").write_text(f"{head}\n\n\n{test}", encoding="utf-8")
    (tmp_path / "conftest.py").write_text("import numba.cuda\n", encoding="utf-8")  # before pytest replaces set_trace
    shown = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--simulator", "test_stops.py"),
        commands=("p i", "n", "p i, cuda.threadIdx.x", "c"),
        folder=tmp_path,
    )
    assert "(Pdb) 5" in shown, shown
    assert "(Pdb) (5, 1)" in shown, shown
    assert "1 passed" in shown, shown
    assert "/trifold/" not in shown.partition("1 passed")[0], shown


def test_a_traceback_shows_the_users_lines() -> None:
    shown = python("-m", "trifold.simulator", PROGRAMS / "faulty.py")
    assert "following = x[i + 1]" in shown and "y[i] = next_of(x, i)" in shown, shown
    assert "/trifold/" not in shown and "/numba/" not in shown, shown
    assert "thread (6, 0, 0)" in shown and "block (0, 0, 0)" in shown, shown


@pytest.mark.parametrize("core", ["ctrace", *(["sysmon"] if sys.version_info >= (3, 12) else [])])
def test_coverage_counts_lines_of_kernels(core: str, tmp_path: Path) -> None:
    report = tmp_path / "coverage.json"
    data = f"--data-file={tmp_path / 'data'}"
    run = ("-m", "coverage", "run", data, "-m", "trifold.simulator", PROGRAMS / "faulty.py")
    python(*run, folder=tmp_path, COVERAGE_CORE=core)
    python("-m", "coverage", "json", data, "-o", report, folder=tmp_path)
    files = json.loads(report.read_text(encoding="utf-8"))["files"]
    counted = next(entry for name, entry in files.items() if name.endswith("faulty.py"))
    assert counted["missing_lines"] == [line_of("i = 0", PROGRAMS / "faulty.py")], counted
    assert line_of("following =", PROGRAMS / "faulty.py") in counted["executed_lines"]
