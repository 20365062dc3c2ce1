"""Each kernel of the corpus, drafted and compiled for the CPU, computes what it computes in the simulator."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from tests.draft import kernels
from tests.draft.differential import compare, disagreement, drafts
from tests.draft.kernels import SEED
from tests.draft.test_kernels import NAMES
from trifold import simulator

#: The kernels that are refused, and the words in which they are.
REFUSED: dict[str, str] = {}
ROUND_OFFS = 2  # of the dtype: a function of mathematics, as Python's and as g++'s library has it


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
    reasons = drafts(folder, [str(Path(kernels.__path__[0]) / f"{name}.py") for name in NAMES])
    return folder, {Path(file).stem: reason for file, reason in reasons.items()}


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


def test_drafts_of_generated_kernels_compute_the_same() -> None:
    assert compare(range(12)) == {}


@pytest.mark.gpu
@pytest.mark.slow(seconds=60)
def test_on_a_gpu_drafts_and_numbas_code_compute_what_the_simulator_does() -> None:
    assert compare(range(20), "cuda") == {}


_MODULE = """
import numpy as np
from numba import cuda

@cuda.jit
def kernel(x, y):
    y[0] = x[0] {operation}

def main(rng):
    y = np.zeros(1, {dtype})
    kernel[1, 1](np.full(1, -7, {dtype}), y)
    return {{"y": y}}
"""


def test_a_draft_that_computes_something_else_is_found(tmp_path: Path) -> None:
    """Modules are drafted with one operation, and simulated with another."""
    cases = {
        "floor": ("np.int64", "// 2", "/ 2"),
        "factor": ("np.float64", "* 2", "* 2.001"),
        "same": ("np.int64", "// 2", "// 2"),
    }
    files = {name: tmp_path / f"{name}.py" for name in cases}
    for name, (dtype, _, drafted) in cases.items():
        files[name].write_text(_MODULE.format(operation=drafted, dtype=dtype))
    assert set(drafts(tmp_path, [str(file) for file in files.values()]).values()) == {""}
    for name, (dtype, simulated, _) in cases.items():
        files[name].write_text(_MODULE.format(operation=simulated, dtype=dtype))
    assert {name: disagreement(file) for name, file in files.items()} == {
        "floor": "y[0] is -3, and -4 in the simulator",
        "factor": "y[0] is -14.007, and -14.0 in the simulator",
        "same": "",
    }
