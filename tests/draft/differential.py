"""Compares generated kernels' drafts, compiled for the CPU, with the simulator.

    python -m tests.draft.differential COUNT [FIRST]    of the seeds from FIRST on; 0

prints each seed whose kernel is refused or computes something else, and ends with status 1 if there is one. Integers
must be the same; floats within what is left of functions of mathematics that differ by some ulps.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.draft import fuzz
from tests.draft.kernels import SEED
from trifold import simulator

_TOGETHER = 60  # kernels in one text
_TOLERANCE = 1e-5


def write(folder: Path, seed: int) -> Path:
    """The module of a seed."""
    path = folder / f"program{seed}.py"
    path.write_text(fuzz.module(fuzz.drawn(seed)), encoding="utf-8")
    return path


def drafts(folder: Path, files: list[str]) -> dict[str, str]:
    """Run modules with their drafts, in a process without the simulator; by file why there is no result, or ""."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.draft.running", str(folder), *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    reasons: dict[str, str] = json.loads(done.stdout)
    return reasons


def simulated(file: Path) -> dict[str, Any]:
    with simulator.options(checks="none"), np.errstate(all="ignore"):
        outputs: dict[str, Any] = runpy.run_path(str(file))["main"](np.random.default_rng(SEED))
    return outputs


def disagreement(file: Path) -> str:
    """Which results of a module with its draft differ from the simulator's."""
    expected = simulated(file)
    with np.load(file.with_suffix(".npz")) as found:
        wrong = [name for name, values in expected.items() if not _agree(found[name], values)]
    return " and ".join(wrong)


def _agree(found: Any, expected: Any) -> bool:
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(found, expected))
    return bool(np.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True))


def compare(seeds: range) -> dict[int, str]:
    """What is wrong with the draft of each seed of which something is."""
    problems: dict[int, str] = {}
    for first in range(seeds.start, seeds.stop, _TOGETHER):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            files = {seed: write(folder, seed) for seed in range(first, min(first + _TOGETHER, seeds.stop))}
            reasons = drafts(folder, [str(file) for file in files.values()])
            for seed, file in files.items():
                problem = reasons[str(file)] or disagreement(file)
                if problem:
                    problems[seed] = problem
                    print(f"seed {seed}: {problem}", flush=True)
    return problems


if __name__ == "__main__":
    simulator.install()
    count, start = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found = compare(range(start, start + count))
    print(f"{count - len(found)} of {count} agree")
    sys.exit(bool(found))
