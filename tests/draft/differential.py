"""Compares generated kernels' drafts, compiled for the CPU or for a GPU, with the simulator.

    python -m tests.draft.differential COUNT [FIRST] [--device cuda]    of the seeds from FIRST on; 0

prints each seed whose kernel is refused or computes something else, and ends with status 1 if there is one. On a GPU
the simulator is compared with Numba's own code, too. Integers must be the same; floats within what is left of functions
of mathematics that differ by some ulps, and of products and sums that Numba's compiler contracts.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
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


def drafts(folder: Path, files: list[str], device: str = "cpu") -> dict[str, str]:
    """Run modules with their drafts, in a process without the simulator; by file why there is no result, or ""."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.draft.running", device, str(folder), *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    reasons: dict[str, str] = json.loads(done.stdout)
    return reasons


def simulated(file: Path) -> dict[str, Any]:
    with simulator.options(checks="none"), np.errstate(all="ignore"):
        outputs: dict[str, Any] = runpy.run_path(str(file))["main"](np.random.default_rng(SEED))
    return outputs


def disagreement(file: Path, of: Sequence[str] = ("",)) -> str:
    """Return the results of a module with its draft that differ from the simulator's; ``of``: ".numba" for Numba's."""
    expected = simulated(file)
    wrong = []
    for one in of:
        with np.load(file.with_suffix(f"{one}.npz")) as found:
            for name, values in expected.items():
                differ = np.argwhere(~_agree(found[name], values))
                if len(differ):
                    at = tuple(differ[0].tolist())
                    wrong.append(f"{name}{one}{list(at)} is {found[name][at]}, and {values[at]} in the simulator")
    return "; ".join(wrong)


def _agree(found: Any, expected: Any) -> Any:
    """Of each element."""
    if expected.dtype.kind not in "fc":
        return found == expected
    return np.isclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)


def compare(seeds: range, device: str = "cpu") -> dict[int, str]:
    """Return the errors of the draft of each seed that has any."""
    of = ("", ".numba") if device == "cuda" else ("",)
    problems: dict[int, str] = {}
    for first in range(seeds.start, seeds.stop, _TOGETHER):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            files = {seed: write(folder, seed) for seed in range(first, min(first + _TOGETHER, seeds.stop))}
            reasons = drafts(folder, [str(file) for file in files.values()], device)
            for seed, file in files.items():
                problem = reasons[str(file)] or disagreement(file, of)
                if problem:
                    problems[seed] = problem
                    print(f"seed {seed}: {problem}", flush=True)
    return problems


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compares generated kernels' drafts with the simulator.")
    parser.add_argument("count", type=int)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    asked = parser.parse_args()
    simulator.install()
    found = compare(range(asked.first, asked.first + asked.count), asked.device)
    print(f"{asked.count - len(found)} of {asked.count} agree")
    sys.exit(bool(found))
