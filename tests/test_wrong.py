"""Each wrong implementation is rejected by the row that is there for its mistake; the gallery passes those rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.wrong.catalogue import CATALOGUE
from tests.wrong.entry import Wrong, copy_of_gallery
from trifold.verification.checks import CHECKS
from trifold.verification.report import OpReport
from trifold.verification.verify import verify
from trifold.workspace import Workspace

EXAMPLES = 10  # fixed calls show most of these mistakes; a good op passes with any number

Cell = tuple[str, str, str]  # op, implementation, device
Verdicts = Callable[[object], OpReport]

GOOD: dict[Cell, tuple[str, ...]] = {}
for _wrong in CATALOGUE:
    _cell = (_wrong.op, _wrong.implementation, _wrong.device)
    GOOD[_cell] = tuple(dict.fromkeys((*GOOD.get(_cell, ()), _wrong.row)))


def _parameters(cases: Any, device: Callable[[Any], str], name: Callable[[Any], str]) -> list[Any]:
    return [pytest.param(c, id=name(c), marks=[pytest.mark.gpu] if device(c) == "cuda" else []) for c in cases]


WRONG_ONES = _parameters(CATALOGUE, lambda wrong: wrong.device, str)
GOOD_ONES = _parameters(GOOD, lambda cell: cell[2], " ".join)


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verdicts]:
    """Reports of the selected cases. Two run at a time: each is mostly a process that starts."""

    base = tmp_path_factory.mktemp("workspaces")

    def check(case: Wrong | Cell, root: Path) -> OpReport:
        if isinstance(case, Wrong):
            return _verify(case.write(root), (case.op, case.implementation, case.device), (case.row,))
        return _verify(copy_of_gallery(case[0], root), case, GOOD[case])

    with ThreadPoolExecutor(max_workers=2) as pool:
        futures: dict[object, Future[OpReport]] = {}
        for item in request.session.items:
            if item.path != request.path or not hasattr(item, "callspec"):
                continue
            if item.get_closest_marker("gpu") is None or torch.cuda.is_available():
                case = item.callspec.params["case"]
                futures[case] = pool.submit(check, case, base / str(len(futures)))
        yield lambda case: futures[case].result()
        for future in futures.values():
            future.cancel()


def _verify(workspace: Workspace, cell: Cell, checks: tuple[str, ...]) -> OpReport:
    op, implementation, device = cell
    report = verify(
        op,
        workspace=workspace,
        implementations=[implementation],
        devices=[device],
        checks=checks,
        examples=EXAMPLES,
        timeout=60,
    )
    return report.ops[0]


def _require_device(device: str, count: int = 1) -> None:
    if device == "cuda" and torch.cuda.device_count() < count:
        pytest.skip(f"needs {count} CUDA device{'s' if count > 1 else ''}")


@pytest.mark.parametrize("case", GOOD_ONES)
def test_the_gallery_passes(case: Cell, verdicts: Verdicts) -> None:
    _require_device(case[2])
    rows = {row.check: row for row in verdicts(case).rows}
    for check in GOOD[case]:
        assert check in rows, [row.failures for row in rows.values()]
        if check == "second device" and rows[check].outcome == "not run":
            continue
        assert rows[check].outcome == "passed", rows[check].failures or rows[check].reason


@pytest.mark.parametrize("case", WRONG_ONES)
def test_a_wrong_one_is_rejected(case: Wrong, verdicts: Verdicts) -> None:
    _require_device(case.device, 2 if case.row == "second device" else 1)
    rows = verdicts(case).rows
    row = next((row for row in rows if row.check == case.row), None)
    assert row is not None, [row.failures for row in rows]
    assert row.outcome == "failed", f"{case.row} {row.outcome} after {row.cases} cases {row.reason}"
    message = row.failures[0].message
    assert case.message in message
    # rejected for its mistake, and not because the edited file no longer makes sense
    assert not any(word in message for word in ("NameError", "SyntaxError", "ImportError", "AttributeError"))


def test_every_check_has_a_mistake_that_it_finds() -> None:
    assert {check.name for check in CHECKS} <= {wrong.row for wrong in CATALOGUE}


def test_names_are_unique() -> None:
    names = [str(wrong) for wrong in CATALOGUE if wrong.device == "cpu"]
    assert sorted(set(names)) == sorted(names)
