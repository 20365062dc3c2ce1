"""cuda::pipeline and cuda::memcpy_async: right kernels under several schedules, and each mistake as one changed
line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trifold import KernelFault
from trifold.cpu import RawKernel, runtime

FILE = Path(__file__).with_name("pipelines.cu")
SOURCE = FILE.read_text(encoding="utf-8").splitlines()
MISTAKES = ("none", "no_wait", "no_release", "released_early", "no_sync")
N = 320


def run(kernel: str, mistake: str, *, seed: int, checks: bool = True) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    with runtime.schedules(1, seed=seed):
        RawKernel(FILE, kernel, checks=checks)(1, 64, (x, y, MISTAKES.index(mistake)))
    return 2 * x, y


@pytest.mark.parametrize("kernel", ["together", "apart", "by_role", "alone", "barrier"])
def test_a_right_kernel_is_clean(kernel: str) -> None:
    for seed in range(5):
        expected, y = run(kernel, "none", seed=seed)
        assert np.array_equal(y, expected), seed


@pytest.mark.parametrize("kernel", ["together", "apart", "alone"])
def test_a_right_kernel_runs_without_checks(kernel: str) -> None:
    expected, y = run(kernel, "none", seed=0, checks=False)
    assert np.array_equal(y, expected)


@pytest.mark.parametrize(
    ("kernel", "mistake", "kinds"),
    [
        ("together", "no_wait", ("race", "uninitialised read")),
        ("together", "no_release", ("deadlock",)),
        ("together", "released_early", ("race",)),
        ("apart", "no_wait", ("race", "uninitialised read")),
        ("apart", "no_release", ("race",)),  # it waits for the first stage again, which is full
        ("by_role", "released_early", ("race",)),
        ("alone", "no_wait", ("race",)),
        ("alone", "no_sync", ("race", "uninitialised read")),
        ("barrier", "no_wait", ("race", "uninitialised read")),
        ("barrier", "no_release", ("race",)),
    ],
)
def test_a_mistake_is_found(kernel: str, mistake: str, kinds: tuple[str, ...]) -> None:
    for seed in range(5):
        with pytest.raises(KernelFault) as caught:
            run(kernel, mistake, seed=seed)
        (finding,) = caught.value.findings
        assert finding.kind in kinds, (seed, finding)
        if finding.kind == "race":
            lines = {SOURCE[access.line - 1].split("// ")[-1] for access in finding.accesses}
            assert lines == {"filled", "used"}, (seed, finding)
