"""Each kernel of the corpus, drafted and compiled for the CPU, computes what it computes in the simulator."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.draft import kernels
from tests.draft.test_kernels import NAMES, SEED
from trifold import simulator

#: The kernels that are refused, and the words in which they are.
REFUSED: dict[str, str] = {}
ROUND_OFFS = 2  # of the dtype: a function of mathematics, as Python's and as g++'s library has it


def run(folder: Path, files: list[str]) -> dict[str, str]:
    """The results of modules with drafts in their kernels' place, into the folder; and why a module has none."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-m", "tests.draft.running", str(folder), *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    reasons: dict[str, str] = json.loads(done.stdout)
    return {Path(file).stem: reason for file, reason in reasons.items()}


def agree(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Integers are the same, and floats within round-off."""
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    relative = ROUND_OFFS * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=relative, atol=0, err_msg=name)


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("drafted")
    return folder, run(folder, [str(Path(kernels.__path__[0]) / f"{name}.py") for name in NAMES])


def test_all_but_these_are_drafted(drafted: tuple[Path, dict[str, str]]) -> None:
    refused = {name: reason for name, reason in drafted[1].items() if reason}
    assert refused.keys() == REFUSED.keys()
    for name, words in REFUSED.items():
        assert f"{name}.py:" in refused[name]
        assert words in refused[name]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED])
def test_a_draft_computes_what_its_kernel_does(name: str, drafted: tuple[Path, dict[str, str]]) -> None:
    with simulator.options(checks="none"):
        expected = importlib.import_module(f"{kernels.__name__}.{name}").main(np.random.default_rng(SEED))
    with np.load(drafted[0] / f"{name}.npz") as found:
        assert found.keys() == expected.keys()
        for result, values in expected.items():
            agree(found[result], values, result)
