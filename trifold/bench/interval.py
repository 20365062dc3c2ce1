"""Confidence intervals of medians, from order statistics.

Of n independent readings, the k-th smallest and the k-th largest enclose the true median with probability 1 − 2·P(B ≤ k
− 1), where B counts heads in n fair throws (David and Nagaraja, Order Statistics, section 7.1). This holds for every
distribution and needs no random numbers, so the same readings have the same interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A median, and the ends of its 95% interval; none with fewer than 6 readings."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def spread(self) -> float | None:
        """Half the width of the interval, relative to the value."""
        if self.low is None or self.high is None or not self.value:
            return None
        return (self.high - self.low) / 2 / self.value


def median(readings: Sequence[float]) -> Estimate:
    """The median of ``readings`` and its interval."""
    ordered = sorted(readings)
    k = _rank(len(ordered))
    middle = statistics.median(ordered)
    return Estimate(middle, ordered[k - 1], ordered[-k]) if k else Estimate(middle)


def ratio(others: Sequence[float], own: Sequence[float]) -> Estimate:
    """The median of ``others`` over the median of ``own``: above 1 if the own ones are smaller.

    The interval is that of the quotients of readings taken next to each other, whose common drift cancels; there is
    none if the two were not read in the same rounds.
    """
    value = statistics.median(others) / statistics.median(own)
    if len(others) != len(own):
        return Estimate(value)
    pairs = median([other / mine for other, mine in zip(others, own, strict=True)])
    if pairs.low is None or pairs.high is None:
        return Estimate(value)
    return Estimate(value, min(value, pairs.low), max(value, pairs.high))


def _rank(n: int) -> int:
    """The largest k whose order statistics still enclose the median with :data:`CONFIDENCE`; 0: none does."""
    tail, k = 0.0, 0
    while k < n // 2:
        tail += math.comb(n, k) / 2**n
        if 1 - 2 * tail < CONFIDENCE:
            return k
        k += 1
    return k
