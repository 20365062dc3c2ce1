"""Right implementations that differ from the gallery's are not rejected: a check that always fails shows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wrong.right import RIGHT, Right
from trifold.verification.verify import verify

EXAMPLES = 4


@pytest.mark.parametrize("right", RIGHT, ids=str)
@pytest.mark.usefixtures("quick_builds")
def test_a_right_one_is_not_rejected(right: Right, tmp_path: Path) -> None:
    (report,) = verify(
        right.op,
        workspace=right.write(tmp_path),
        implementations=[right.implementation],
        devices=["cpu"],
        checks=right.rows,
        examples=EXAMPLES,
        timeout=60,
    ).ops
    assert not [failure.message for row in report.rows for failure in row.failures]
    assert {row.check for row in report.rows if row.outcome == "passed"} >= set(right.rows)


def test_names_are_unique() -> None:
    assert len({str(right) for right in RIGHT}) == len(RIGHT)
