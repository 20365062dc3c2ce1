"""Each wrong implementation is rejected by the row that is there for its mistake.

That the gallery passes all rows is what ``verify/*.py`` tests.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import torch

from tests.wrong.catalogue import CATALOGUE
from tests.wrong.entry import Wrong
from tests.wrong.extended import EXTENDED
from tests.wrong.faults import FAULTS
from trifold.verification.checks import CHECKS
from trifold.verification.outcomes import Absence
from trifold.verification.verify import SOURCES, verify

_PORTS_A_ROW = 2  # not extended: each is compiled, and takes five times as long as a prototype


def _extended() -> frozenset[str]:
    """Those of a CPU that only ``pytest --extended`` tests: the list, and of each row all ports but the first ones."""
    ports = defaultdict(list)
    for wrong in CATALOGUE:
        if (wrong.implementation, wrong.device) == ("port", "cpu") and str(wrong) not in EXTENDED:
            ports[wrong.row].append(str(wrong))
    return EXTENDED.union(*(names[_PORTS_A_ROW:] for names in ports.values()))


LEFT_OUT = _extended()


def _marks(wrong: Wrong) -> list[pytest.MarkDecorator]:
    where = [pytest.mark.gpu] if wrong.device == "cuda" else [pytest.mark.extended] if str(wrong) in LEFT_OUT else []
    return [*where, *([pytest.mark.xfail(reason=wrong.missed, strict=True)] if wrong.missed else [])]


WRONG_ONES = [pytest.param(wrong, id=str(wrong), marks=_marks(wrong)) for wrong in CATALOGUE]


@pytest.mark.parametrize("wrong", WRONG_ONES)
@pytest.mark.usefixtures("quick_builds")
def test_a_wrong_one_is_rejected(wrong: Wrong, tmp_path: Path) -> None:
    if wrong.device == "cuda" and torch.cuda.device_count() < (needed := 2 if wrong.row == "second device" else 1):
        pytest.skip(f"needs {needed} CUDA device{'s' if needed > 1 else ''}")
    (report,) = verify(
        wrong.op,
        workspace=wrong.write(tmp_path),
        implementations=[wrong.implementation],
        devices=[wrong.device],
        checks=["values" if wrong.row == SOURCES else wrong.row],
        examples=wrong.examples,
        timeout=60,
    ).ops
    row = next((row for row in report.rows if row.check == wrong.row), None)
    assert row is not None, [row.failures for row in report.rows]
    if row.reason.startswith(Absence.NO_SANITIZER):
        pytest.skip(row.reason)
    assert row.outcome == "failed", f"{wrong.row} {row.outcome} after {row.cases} cases {row.reason}"
    message = row.failures[0].message
    assert wrong.message in message
    # rejected for its mistake, and not because the edited file no longer makes sense
    assert not any(word in message for word in ("NameError", "SyntaxError", "ImportError", "AttributeError"))


def test_every_check_has_a_mistake_that_it_finds() -> None:
    assert {check.name for check in CHECKS} <= {wrong.row for wrong in (*CATALOGUE, *FAULTS)}


def test_names_are_unique() -> None:
    names = [str(wrong) for wrong in CATALOGUE if wrong.device == "cpu"]
    assert sorted(set(names)) == sorted(names)


def test_each_row_has_a_mistake_whose_test_is_not_left_out() -> None:
    of_cpu = [wrong for wrong in CATALOGUE if wrong.device == "cpu"]
    assert {str(wrong) for wrong in of_cpu} >= EXTENDED
    rows = {(wrong.row, wrong.implementation) for wrong in of_cpu}
    assert {(wrong.row, wrong.implementation) for wrong in of_cpu if str(wrong) not in LEFT_OUT} == rows
