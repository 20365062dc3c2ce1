"""The outcomes of a test."""

from __future__ import annotations

from dataclasses import dataclass

# Numba's own runner counts these as success.
GOOD = ("passed", "expected failure")
SKIPPED = "skipped"
BAD = ("failed", "error", "unexpected success", "crashed", "timed out", "not run")


@dataclass(frozen=True)
class Outcome:
    """One test's end: ``kind`` is one of GOOD, SKIPPED and BAD; ``reason`` the skip's, or the failure's traceback."""

    kind: str
    seconds: float = 0.0
    reason: str = ""

    @property
    def good(self) -> bool:
        return self.kind in GOOD


Outcomes = dict[str, Outcome]  # by test: module, class and method, below the suite's package
