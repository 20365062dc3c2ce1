"""Reductions of prototypes over teams of threads, and sums whose error does not grow with the number of terms."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

from trifold import device
from trifold.findings import collect

THREADS = 64
WARPS = THREADS // 32


@cuda.jit
def team_kernel(x, sums, maxima, team):  # type: ignore[no-untyped-def]
    of_warp = cuda.shared.array(WARPS, x.dtype)
    i = device.thread_index()
    sums[i] = device.team_sum(x[i], of_warp, team)
    maxima[i] = device.team_max(x[i], of_warp, team)


@cuda.jit
def sum_kernel(x, result):  # type: ignore[no-untyped-def]
    total = x.dtype.type(0)
    lost = x.dtype.type(0)
    for i in range(x.size):
        total, lost = device.add_compensated(total, lost, x[i])
    result[0] = total - lost


@pytest.mark.parametrize("team", [1, 4, 8, 32, THREADS])
def test_each_thread_of_a_team_gets_what_the_team_has(team: int) -> None:
    x = (np.arange(2 * THREADS, dtype=np.float32) * 7) % 64 - 20
    sums, maxima = np.empty_like(x), np.empty_like(x)
    with collect() as found:
        team_kernel[2, THREADS](x, sums, maxima, team)
    assert found == []
    teams = x.reshape(-1, team)
    assert np.array_equal(sums, teams.sum(1).repeat(team))
    assert np.array_equal(maxima, teams.max(1).repeat(team))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([0.1] * 5000, 500.0, id="a plain sum is 0.0056 off"),
        pytest.param([1.0, np.inf], np.inf, id="infinity"),
        pytest.param([np.inf, -np.inf], np.nan, id="no number"),
        pytest.param([1.0, np.nan, 1.0], np.nan, id="nan stays"),
        pytest.param([-np.inf, 1.0, 1.0], -np.inf, id="infinity stays"),
    ],
)
def test_a_compensated_sum(terms: list[float], expected: float) -> None:
    result = np.empty(1, np.float32)
    with np.errstate(all="ignore"):
        sum_kernel[1, 1](np.array(terms, np.float32), result)
    assert result[0] == pytest.approx(expected, rel=6e-8, nan_ok=True)
