"""Targets in figures, and whether they were reached."""

from __future__ import annotations

import json
from pathlib import Path

from trifold.bench.asked import Figure, verdicts, write

FOUND = (
    Figure("a barrier", 20, 20.0, "ns"),
    Figure("a build", 5, 5.004, "s"),
    Figure("times as fast", 500, 1234.5, "×", at_least=True),
    Figure("times as fast, seeded", 500, 499.9, "×", at_least=True),
)


def test_a_figure_that_is_missed_says_so() -> None:
    assert [figure.met for figure in FOUND] == [True, False, True, False]
    lines = [" ".join(line.split()) for line in verdicts(FOUND).splitlines()]
    assert lines == [
        "figure asked measured",
        "a barrier ≤ 20 ns 20.00 ns met",
        "a build ≤ 5 s 5.00 s MISSED",
        "times as fast ≥ 500 × 1,234 × met",
        "times as fast, seeded ≥ 500 × 500 × MISSED",
    ]


def test_they_are_kept_with_what_they_come_from(tmp_path: Path) -> None:
    write(tmp_path / "new" / "figures.json", FOUND[:1], environment={"cores": 2})
    kept = json.loads((tmp_path / "new" / "figures.json").read_text(encoding="utf-8"))
    assert kept["environment"] == {"cores": 2}
    assert kept["figures"] == [
        {"name": "a barrier", "asked": 20, "measured": 20.0, "unit": "ns", "at_least": False, "met": True}
    ]
