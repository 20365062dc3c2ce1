"""The results of a compiled kernel equal the interpreter's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.simulator.compiled import kernels
from trifold import KernelFault, simulator
from trifold.errors import LaunchError
from trifold.findings import KernelWarning
from trifold.simulator.compiled import interpreted, native
from trifold.simulator.launch import launched, launches

REAL = np.linspace(-3, 5, 24).reshape(4, 6)
LAYOUTS = {
    "contiguous": REAL,
    "transposed": np.ascontiguousarray(REAL.T).T,
    "every other": np.repeat(REAL, 2, axis=1)[:, ::2],
    "backwards": np.ascontiguousarray(REAL[::-1, ::-1])[::-1, ::-1],
}


def computed(matrix: Any, ints: Any, *, compiled: bool, checks: str = "all") -> np.ndarray[Any, Any]:
    out = np.zeros((40, 4))
    with simulator.options(compiled=compiled, checks=checks):
        kernels.arguments[2, 32](-17, 2**40 + 3, 0.1, np.float32(0.7), True, matrix, ints, out)
    return out


@pytest.mark.parametrize("checks", ["all", "none"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_any_strides(layout: str, checks: str) -> None:
    ints = np.arange(5, dtype=np.uint8)
    expected = computed(LAYOUTS[layout], ints, compiled=False)
    found = computed(LAYOUTS[layout], ints, compiled=True, checks=checks)
    np.testing.assert_array_max_ulp(found, expected, 2)
    assert not any(kernel.startswith("arguments ") for kernel in interpreted())


def test_torch_tensors_are_not_copied() -> None:
    x, y = torch.ones(8, 4), torch.zeros(8, 4)
    with simulator.options(compiled=True):
        kernels.mistakes[1, 8](4, x, y)
    assert y[:, 0].tolist() == [1.0] * 8


def test_device_arrays_and_what_nobody_has_written() -> None:
    from numba import cuda

    x, y = cuda.to_device(np.ones((8, 4), np.float32)), cuda.device_array((8, 4), np.float32)
    with simulator.options(compiled=True):
        kernels.mistakes[1, 8](4, x, y)
        with pytest.raises(KernelFault, match=r"uninitialised read of global array element x\[7, 3\]"):
            kernels.mistakes[1, 8](4, y, x)
    assert y.copy_to_host()[:, 0].tolist() == [1.0] * 8


def test_what_is_right_is_not_suspected(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_checked(*_: object) -> None:
        pytest.fail("the screen suspects an access")

    monkeypatch.setattr(native.Native, "_run_checked", run_checked)
    x, out = np.arange(64.0), np.zeros(65)
    with simulator.options(compiled=True):
        kernels.warps[1, 64](0, x, out)
        assert out[:2].tolist() == x.reshape(2, 32).sum(1).tolist()
        for which in (1, 4, 4):
            kernels.mistakes[1, 3](which, np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32))


def twice_as_much(x: Any, y: Any) -> None:
    with simulator.options(compiled=True, checks="none"):
        kernels.doubled[1, 8](x, y)


def test_a_later_launch_heeds_what_its_own_arguments_are() -> None:
    """Launches of arguments like earlier ones are not prepared again; these are unlike them."""
    x, y = np.arange(8.0), np.zeros(8)
    before = launches(), launched(kernels.doubled.fn)
    for _ in range(3):
        twice_as_much(x, y)
    assert (launches(), launched(kernels.doubled.fn)) == (before[0] + 3, before[1] + 3)
    assert y.tolist() == (2 * x).tolist()
    with pytest.warns(KernelWarning, match="x and y are the same host memory"):
        twice_as_much(y, y)
    with pytest.warns(KernelWarning, match="x and y are the same host memory"):
        twice_as_much(y[:8], y)
    twice_as_much(x, whole := np.zeros(8, np.int64))
    assert whole.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    y.flags.writeable = False
    with pytest.raises(TypeError, match="y is read-only"):
        twice_as_much(x, y)
    with pytest.raises(KernelFault, match=r"y\[7\]"):
        twice_as_much(x, np.zeros(7))
    with pytest.raises(LaunchError):
        twice_as_much(x, [0.0] * 8)


def particles() -> np.ndarray[Any, Any]:
    made = np.zeros(40, kernels.PARTICLE)
    made["x"], made["v"] = np.linspace(-1, 2, 40), 3
    return made


@pytest.mark.parametrize("checks", ["all", "none"])
def test_arrays_of_records(checks: str) -> None:
    results = []
    for compiled in (False, True):
        moved, total = particles(), np.zeros(1)
        with simulator.options(compiled=compiled, checks=checks):
            kernels.particles_move[2, 32](moved, np.float32(0.25), total)
        results.append((moved, total))
    (expected, sums), (found, found_sums) = results
    assert found.tobytes() == expected.tobytes()
    np.testing.assert_allclose(found_sums, sums, rtol=1e-12)
    assert not any(kernel.startswith("particles_move ") for kernel in interpreted())


def test_threads_that_meet_in_a_record() -> None:
    with (
        simulator.options(compiled=True),
        pytest.raises(KernelFault, match=r"race on global array element particles\[0\]"),
    ):
        kernels.particles_meet[1, 2](particles())
    assert not any(kernel.startswith("particles_meet ") for kernel in interpreted())


def test_records_whose_fields_are_written_one_by_one_run_in_the_interpreter() -> None:
    """The screen knows whether a record is written, not which of its fields."""
    from numba import cuda

    out = np.zeros(4, np.float32)
    with simulator.options(compiled=True):
        kernels.records_in_a_block[1, 4](out)
        with pytest.raises(KernelFault, match=r"uninitialised read of global array element particles\[0\]"):
            kernels.particles_move[1, 4](cuda.device_array(4, kernels.PARTICLE), np.float32(1), np.zeros(1))
    assert out.tolist() == [1.0] * 4
    reasons = {kernel.split(" at ")[0]: reason for kernel, reason in interpreted().items()}
    assert "records in shared memory are not translated" in reasons["records_in_a_block"]
    assert reasons["particles_move"] == "particles has records that are not written yet"
