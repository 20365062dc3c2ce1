"""Code that cannot be translated is refused at its line, with the reason; nothing else is written in its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEXT = (HERE / "refused.py").read_text(encoding="utf-8").splitlines()


def drafting(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program drafting.py, in a process without Numba's simulator."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-m", "tests.draft.drafting", *arguments]
    return subprocess.run(command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True)


@pytest.fixture(scope="module")
def refusals() -> dict[str, tuple[int, str] | None]:
    done = drafting("refusals")
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str] | None] = json.loads(done.stdout)
    return found


def test_each_kernel_is_refused_at_its_line(refusals: dict[str, tuple[int, str] | None]) -> None:
    expected = {
        number: line.partition("# refused: ")[2] for number, line in enumerate(TEXT, 1) if "# refused: " in line
    }
    named = set()
    for kernel, refusal in refusals.items():
        assert refusal is not None, f"{kernel} was drafted"
        line, problem = refusal
        assert line in expected, f"{kernel} was refused at line {line}: {problem}"
        assert expected[line] in problem
        named.add(line)
    assert named == set(expected)
