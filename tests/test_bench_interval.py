"""Intervals of medians and ratios: as wide as the tables say, around the value, and blind to a common drift."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trifold.bench.interval import Estimate, median, ratio

SECONDS = st.floats(1e-7, 1.0)


@pytest.mark.parametrize(
    ("n", "rank"),
    [
        pytest.param(6, 1, id="the fewest: 96.9% lie between the least and the greatest"),
        pytest.param(8, 1, id="the second would enclose 93.0%"),
        pytest.param(9, 2, id="96.1%"),
        pytest.param(10, 2, id="97.9%"),
        pytest.param(20, 6, id="95.9%"),
        pytest.param(100, 40, id="96.5%"),
    ],
)
def test_the_interval_ends_at_the_order_statistics_of_the_binomial_table(n: int, rank: int) -> None:
    found = median([float(i) for i in range(n, 0, -1)])
    assert found == Estimate((n + 1) / 2, float(rank), float(n + 1 - rank))


@pytest.mark.parametrize("n", range(1, 6))
def test_fewer_than_six_readings_have_no_interval(n: int) -> None:
    assert median([3.0] * n) == Estimate(3.0)
    assert median([3.0] * n).spread is None


@given(st.lists(SECONDS, min_size=6, max_size=60), st.data())
def test_a_value_lies_in_its_interval(own: list[float], data: st.DataObject) -> None:
    others = data.draw(st.lists(SECONDS, min_size=len(own), max_size=len(own)))
    for found in (median(own), ratio(others, own)):
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high


def test_a_drift_that_both_share_does_not_widen_their_ratio() -> None:
    clock = [1.0 + 0.01 * i for i in range(20)]
    found = ratio([2 * tick for tick in clock], clock)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert median(clock).spread == pytest.approx(0.045 / 1.095)


def test_readings_of_different_rounds_give_a_ratio_without_an_interval() -> None:
    assert ratio([4.0], [2.0] * 10) == Estimate(2.0)
