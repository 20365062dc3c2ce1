"""Generated kernels run in the simulator with all checks, and Numba's CUDA target compiles them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.draft import fuzz, kernels
from trifold import simulator
from trifold.findings import collect

SIMULATED, COMPILED, COMPARED = range(40), range(100, 115), range(15)
INSTALLED = {each.metadata["Name"] for each in importlib.metadata.distributions()}
# They call min or max, or pass a function, which numba's own target does not compile, or are compiled for a device
# where they are declared.
NOT_ASKED = (
    *("activations", "attention_tile", "binary_search", "bouncing", "collatz", "convolution_2d", "dynamic_shared_two"),
    *("higher_order", "interpolate_bicubic", "levenshtein", "matrix_profile", "merge_sorted", "morton"),
    *("reduce_grid_stride", "softmax_rows"),
)


def _of_numba(module: str, *arguments: str) -> str:
    """Return a module's output in a process in which the simulator is not enabled."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIFOLD")} | {"NUMBA_ENABLE_CUDASIM": "0"}
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def write(folder: Path, seed: int) -> Path:
    path = folder / f"program{seed}.py"
    path.write_text(fuzz.module(fuzz.drawn(seed)))
    return path


@pytest.mark.parametrize("seed", SIMULATED)
def test_a_generated_kernel_runs_without_a_finding(seed: int, tmp_path: Path) -> None:
    main = runpy.run_path(str(write(tmp_path, seed)))["main"]
    results = []
    for order in (0, 5):
        with simulator.options(checks="all", seed=order), collect() as findings:
            results.append(main(np.random.default_rng(seed)))
        assert [str(finding) for finding in findings] == []
    for name, output in results[0].items():
        np.testing.assert_array_equal(output, results[1][name])


def test_a_seed_gives_the_same_program_and_another_one_another() -> None:
    assert fuzz.module(fuzz.drawn(3)) == fuzz.module(fuzz.drawn(3)) != fuzz.module(fuzz.drawn(4))


def test_a_failing_program_shrinks_to_what_fails() -> None:
    numbers = next(drawn for seed in range(5, 99) if "cuda.popc" in fuzz.module(drawn := fuzz.drawn(seed)))
    small = fuzz.module(fuzz.shrunk(numbers, lambda text: "cuda.popc" in text))
    assert "cuda.popc" in small
    assert len(small) < len(fuzz.module(numbers))
    assert "helper" not in small


@pytest.mark.slow
@pytest.mark.extended
def test_numba_compiles_the_corpus_and_generated_kernels(tmp_path: Path) -> None:
    corpus = [path for path in Path(kernels.__path__[0]).glob("*.py") if path.stem not in ("__init__", *NOT_ASKED)]
    files = [*corpus, *(write(tmp_path, seed) for seed in COMPILED)]
    refusals = json.loads(_of_numba("tests.draft.compiled", *map(str, files)))
    assert len(refusals) == len(files) > 80
    assert {file: why for file, why in refusals.items() if why} == {}


@pytest.mark.slow
@pytest.mark.skipif("numba-cuda" in INSTALLED, reason="its calls have another form than those of numba's own target")
def test_what_numba_compiles_computes_the_same(tmp_path: Path) -> None:
    """Integers bit for bit, and floats within what is left of sums in another order."""
    files = [write(tmp_path, seed) for seed in COMPARED]
    _of_numba("tests.draft.numba_on_cpu", str(tmp_path), *map(str, files))
    compared = 0
    for file in files:
        if not file.with_suffix(".npz").exists():
            continue
        compared += 1
        with simulator.options(checks="none"):
            here = runpy.run_path(str(file))["main"](np.random.default_rng(23))
        with np.load(file.with_suffix(".npz")) as there:
            np.testing.assert_array_equal(here["integers"], there["integers"], err_msg=file.name)
            np.testing.assert_allclose(here["floats"], there["floats"], rtol=1e-4, atol=1e-4, err_msg=file.name)
    assert compared > 5
