"""The types of variables are those that Numba's own pipeline infers for CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.draft.test_fuzz import INSTALLED


@pytest.mark.skipif("numba-cuda" in INSTALLED, reason="its pipeline is another one than that of numba's own target")
def test_types_are_numbas() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-m", "tests.draft.numba_types"]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
