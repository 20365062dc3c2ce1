"""A script that calls compilers ends in the same way in a fresh process and in a fork of this one."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from trifold.build import script

ENDS = {
    "print('made')": (0, "made\n"),
    "import sys; print('made', file=sys.stderr); sys.exit(3)": (3, "made\n"),
    "import sys; sys.exit(None)": (0, ""),
    "import sys; sys.exit('no compiler')": (1, "no compiler\n"),
    "import os; os.kill(os.getpid(), 9)": (-signal.SIGKILL, ""),
    "import os, sys; print(os.getcwd(), dict(os.environ), sys.argv[1:], sys.stdin.read())": (
        0,
        "{folder} {{'LC_ALL': 'C'}} ['request.json'] \n",
    ),
    "import subprocess; subprocess.run(['/bin/echo', 'made'], check=True)": (0, "made\n"),
}


@pytest.mark.parametrize("forks", [False, True])
@pytest.mark.parametrize("text", ENDS)
def test_a_script_ends_alike(text: str, forks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "_forks", forks)
    own = tmp_path / "own.py"
    own.write_text(text)
    with (tmp_path / "log").open("wb") as output:
        status = script.run([sys.executable, "-P", str(own), "request.json"], tmp_path, {"LC_ALL": "C"}, output)
    said = (tmp_path / "log").read_text()
    assert (status, said) == (ENDS[text][0], ENDS[text][1].format(folder=tmp_path))


def test_an_exception_in_a_fork_is_told_and_goes_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "_forks", True)
    own = tmp_path / "own.py"
    own.write_text("raise RuntimeError('ninja failed')")
    with (tmp_path / "log").open("wb") as output:
        assert script.run([sys.executable, "-P", str(own)], tmp_path, {}, output) == 1
    assert (tmp_path / "log").read_text().endswith("RuntimeError: ninja failed\n")
