"""A worker's events become rows: every requested row appears, and none passes that was not run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import trifold
from tests.isolation.probes import replace_function
from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.cells import CellName
from trifold.verification import runner
from trifold.verification.checks import CHECKS
from trifold.verification.job import Job
from trifold.verification.outcomes import Absence
from trifold.verification.report import Row
from trifold.verification.runner import run_cell

ADD = CellName("add", "prototype", "cpu")
ERRORS, VALUES = (Row(name, "prototype", "cpu", "passed", cases=3) for name in ("errors", "values"))

PLAN: dict[str, Any] = {"event": "plan", "properties": ["property: large"]}
DONE: dict[str, Any] = {"event": "done", "nonce": "NONCE"}  # which the worker is given

# Stands for a worker: writes events that it is given, and ends.
_WORKER = """
import os, sys
events, lines, status, _ = sys.argv[1:]
os.write(int(events), lines.encode())
os._exit(int(status))
"""


def _row(row: Row) -> dict[str, Any]:
    return {"event": "row", "row": asdict(row)}


def _check(name: str) -> dict[str, Any]:
    return {"event": "check", "name": name}


def rows_of(
    monkeypatch: pytest.MonkeyPatch, *workers: list[dict[str, Any]], checks: tuple[str, ...] = (), status: int = 0
) -> list[Row]:
    """The rows, where each worker that is started sends the next list of events."""
    left = list(workers)

    def start(job: Job, environment: dict[str, str], events: int, output: int) -> subprocess.Popen[bytes]:
        lines = "".join(json.dumps(event).replace("NONCE", job.nonce) + "\n" for event in left.pop(0))
        return subprocess.Popen(
            [sys.executable, "-S", "-c", _WORKER, str(events), lines, str(status), "worker"],
            pass_fds=(events,),
            stdout=output,
            start_new_session=True,
        )

    monkeypatch.setattr(runner, "_start", start)
    rows = run_cell(Job(str(GALLERY.root), ADD, checks), timeout=20)
    assert not left
    return rows


def outcomes(rows: list[Row]) -> dict[str, str]:
    assert len({row.check for row in rows}) == len(rows), "one row for each check"
    return {row.check: row.outcome for row in rows}


def test_what_was_asked_for_and_came(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(monkeypatch, [PLAN, _check("errors"), _row(ERRORS), DONE], checks=("errors",))
    assert rows == [ERRORS]


def test_a_row_that_did_not_come_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(monkeypatch, [PLAN, _row(ERRORS), _check("errors"), DONE], checks=("errors", "values"))
    assert outcomes(rows) == {"errors": "passed", "values": "failed"}
    assert rows[1].failures[0].message == "this row did not come: the worker ended during errors"


def test_all_checks_and_the_properties_of_the_plan_must_come(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(monkeypatch, [PLAN, _row(ERRORS), _row(VALUES), DONE])
    expected = {"build", *(check.name for check in CHECKS if "cpu" in check.devices), "property: large"}
    found = outcomes(rows)
    assert found.keys() == expected
    assert {name for name, outcome in found.items() if outcome == "passed"} == {"errors", "values"}
    assert set(found.values()) == {"passed", "failed"}


@pytest.mark.parametrize(
    "last",
    [
        pytest.param([], id="none"),
        pytest.param([{"event": "done", "nonce": ""}], id="without the nonce"),
        pytest.param([{"event": "done", "nonce": "0" * 32}], id="with another nonce"),
    ],
)
def test_a_worker_that_ends_before_its_last_event_has_failed(
    last: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [PLAN, _check("errors"), _row(ERRORS), _check("property: large"), *last]
    rows = rows_of(monkeypatch, first, [PLAN, DONE], checks=("errors", "property: large"))
    assert outcomes(rows) == {"errors": "passed", "property: large": "failed"}
    assert rows[1].failures[0].message == "the worker ended with status 0 during property: large"


def test_a_row_of_the_check_in_which_the_worker_died_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(monkeypatch, [PLAN, _check("errors"), _row(ERRORS)], [PLAN, DONE], checks=("errors",))
    assert outcomes(rows) == {"errors": "failed"}


def test_after_three_deaths_the_other_checks_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [[PLAN, _check(name)] for name in ("bounds", "values", "errors")]
    rows = rows_of(monkeypatch, *workers, status=7)
    assert outcomes(rows) == {"bounds": "failed", "values": "failed", "errors": "failed", "other checks": "not run"}
    assert rows[0].failures[0].message == "the worker ended with status 7 during bounds"
    assert rows[-1].reason == "given up after the process died in: bounds, values, errors"


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (f"{Absence.NOT_CLAIMED}", "not run"),
        (f"{Absence.NOT_ON_CPU}: its kernels need clusters", "not run"),
        ("", "failed"),
        ("there was no time", "failed"),
        (f"in short: {Absence.ONE_GPU}", "failed"),
    ],
)
def test_only_reasons_of_the_harness_count(reason: str, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Row("errors", "prototype", "cpu", "not run", reason=reason)
    (row,) = rows_of(monkeypatch, [PLAN, _row(absent), DONE], checks=("errors",))
    assert row.outcome == outcome
    if outcome == "failed":
        assert row.failures[0].message == f"it was not run, and may not be left out: {reason}"


# ------------------------------------------------------------------------------------------------------ real workers


_SPEC = """
import os
from trifold.spec import Property, Spec, elementwise, elementwise_bad_calls, elementwise_smooth
from trifold.verification import tolerance
from trifold.verification.outcomes import Absence, NotRun


def ends(function, device):
    {body}


spec = Spec(
    calls=elementwise(2),
    smooth=elementwise_smooth(2),
    bad_calls=elementwise_bad_calls("x", "y"),
    properties=[Property("ends", ends, "it does not hold")],
)
"""


@pytest.mark.parametrize("nice", [0, 7])
def test_judge_and_op_have_the_priority_of_the_job(nice: int, tmp_path: Path) -> None:
    expected = str(min(19, os.getpriority(os.PRIO_PROCESS, 0) + nice))
    workspace = copy_of_gallery("add", tmp_path)
    replace_function(
        workspace, "import os\ndef add(x, y):\n    raise ValueError(os.getpriority(os.PRIO_PROCESS, 0))\n\n\n"
    )
    body = f"""
    here = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        function(*2 * [torch.ones(3)])
    except ValueError as error:
        assert (str(here), str(error)) == ("{expected}", "{expected}"), (here, error)
"""
    workspace.files("add").spec.write_text(_SPEC.format(body=f"import torch{body}"), encoding="utf-8")
    (row,) = run_cell(Job(str(workspace.root), ADD, ("property: ends",), nice=nice), timeout=60)
    assert row.outcome == "passed", row


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("os._exit(0)", "the worker ended with status 0 during property: ends"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise NotRun(Absence.ONE_GPU)", "the property raises NotRun, which only the harness may"),
        ("tolerance.mismatch = print", "the verification itself was changed while it ran: trifold.verification.tol"),
        ("tolerance.mismatch.__code__ = ends.__code__", "the verification itself was changed while it ran: trifold"),
        (
            "import trifold.verification.integrity as own; own.Snapshot.changed = lambda self: []",
            "the verification itself was changed while it ran: trifold.verification.integrity.Snapshot.changed",
        ),
        ("import torch; torch.equal = print", "the verification itself was changed while it ran: torch.equal"),
        ("assert False", "the property does not hold"),
    ],
)
def test_a_property_that_ends_or_changes_the_judge_has_failed(body: str, says: str, tmp_path: Path) -> None:
    workspace = copy_of_gallery("add", tmp_path)
    workspace.files("add").spec.write_text(_SPEC.format(body=body), encoding="utf-8")
    report = trifold.verify(
        "add",
        workspace=workspace,
        implementations=["prototype"],
        devices=["cpu"],
        checks=["errors", "property: ends"],
        examples=1,
    )
    rows = {row.check: row for row in report.ops[0].rows}
    assert {name: row.outcome for name, row in rows.items()} == {"errors": "passed", "property: ends": "failed"}
    message = rows["property: ends"].failures[0].message
    assert re.sub(r"^\S+verify/add\.py:[0-9]+: ", "", message).startswith(says)
    assert report.verdict == "failed"
