"""Ctrl-C and SIGTERM end a verification at once, and lose nothing of what was checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_TRIFOLD = (sys.executable, "-m", "trifold")
_WAITING = """
import os, pathlib, time
def reference(*args):
    pathlib.Path(os.environ["TEST_MARK"]).touch()
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of an op whose reference waits for ten minutes."""
    root = tmp_path_factory.mktemp("interrupt") / "workspace"
    subprocess.run([*_TRIFOLD, "new", str(root)], check=True, capture_output=True)
    (prototype,) = (root / "prototypes").glob("*.py")
    prototype.write_text(prototype.read_text().replace("def reference(", "def replaced(") + _WAITING)
    return root


@pytest.fixture
def waiting(workspace: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A verification that waits for the reference; and where its report goes."""
    report, mark = tmp_path / "report.json", tmp_path / "waits"
    command = [*_TRIFOLD, "verify", "--json", str(report), "--device", "cpu", "--implementation", "prototype"]
    environment = os.environ | {"TEST_MARK": str(mark)}
    with subprocess.Popen(
        command, cwd=workspace, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        started = time.monotonic()
        while not mark.exists():
            assert process.poll() is None, process.communicate()[0].decode()
            assert time.monotonic() - started < 120, "the reference was not called"
            time.sleep(0.05)
        yield process, report
        process.kill()


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.extended)],
    ids=lambda number: number.name,
)
def test_what_was_checked_is_reported(waiting: tuple[subprocess.Popen[bytes], Path], number: signal.Signals) -> None:
    process, report = waiting
    os.kill(process.pid, number)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"interrupted" in said
    found = json.loads(report.read_text())
    rows = {row["check"]: row for op in found["ops"] for row in op["rows"]}
    assert found["verdict"] == "incomplete"
    assert rows["build"]["outcome"] == "passed"
    assert rows["other checks"]["outcome"] == "not run" and rows["other checks"]["reason"] == "interrupted"
