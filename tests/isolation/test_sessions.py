"""What an op's process has started ends with it."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.processes import runs
from trifold.verification.remote_process import kill_session

_AS_NINJA = """
import subprocess, time
compiler = subprocess.Popen(["sleep", "60"], process_group=0)
print(compiler.pid, flush=True)
time.sleep(60)
"""


def test_a_compiler_in_a_process_group_of_its_own_ends_too() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _AS_NINJA], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        compiler = int(process.stdout.readline())
        assert runs(compiler)
        kill_session(process.pid)
        assert process.wait(10) < 0
    for _ in range(100):
        if not runs(compiler):
            return
        time.sleep(0.02)
    raise AssertionError("the compiler runs on")
