"""Generated kernels run in the simulator with all checks, and Numba's CUDA target compiles them."""

from __future__ import annotations

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

SIMULATED, COMPILED = range(40), range(100, 115)
# They call min or max, which numba's own target does not compile, or are compiled for a device where they are declared.
NOT_ASKED = (
    *("activations", "binary_search", "collatz", "convolution_2d", "dynamic_shared_two", "interpolate_bicubic"),
    *("levenshtein", "matrix_profile", "merge_sorted", "morton", "reduce_grid_stride", "softmax_rows"),
)


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
    numbers = next(drawn for seed in range(99) if "cuda.popc" in fuzz.module(drawn := fuzz.drawn(seed)))
    small = fuzz.module(fuzz.shrunk(numbers, lambda text: "cuda.popc" in text))
    assert "cuda.popc" in small
    assert len(small) < len(fuzz.module(numbers))
    assert "helper" not in small


@pytest.mark.slow
def test_numba_compiles_the_corpus_and_generated_kernels(tmp_path: Path) -> None:
    corpus = [path for path in Path(kernels.__path__[0]).glob("*.py") if path.stem not in ("__init__", *NOT_ASKED)]
    files = [*corpus, *(write(tmp_path, seed) for seed in COMPILED)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIFOLD")} | {"NUMBA_ENABLE_CUDASIM": "0"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.draft.compiled", *map(str, files)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    refusals = json.loads(answer.stdout)
    assert len(refusals) == len(files) > 80
    assert {file: why for file, why in refusals.items() if why} == {}
