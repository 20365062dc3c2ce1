"""Other forms of a port are built while earlier checks run."""

from __future__ import annotations

import io
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wrong.entry import GALLERY
from trifold.cells import CellName
from trifold.verification.checks import CHECKS, Check
from trifold.verification.job import Job
from trifold.verification.worker import Events, building_ahead

JOB = Job(str(GALLERY.root), CellName("add", "port", "cpu"))
# jitter as a check on the CPU, where it is another form that is built.
CHECK = replace(next(check for check in CHECKS if check.form is not None), form="checked")


class Builders:
    """The numbers of the processes that built: 0 where one has ended."""

    def __init__(self) -> None:
        self._events = io.StringIO()
        self.events = Events(self._events)

    def all(self) -> list[int]:
        return [json.loads(line)["pid"] for line in self._events.getvalue().splitlines()]

    def wait_for(self, count: int) -> list[int]:
        while len(self.all()) < count:
            time.sleep(0.02)
        return self.all()


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_builds: None) -> Path:
    """The empty folder in which builds are cached."""
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path))
    return tmp_path / "builds"


def _built(builds: Path) -> list[Path]:
    return [path for path in builds.glob("add-checked*") if path.is_dir() and ".partial-" not in path.name]


def test_a_form_is_built_by_the_time_that_its_check_needs_it(builds: Path) -> None:
    builders = Builders()
    with building_ahead(JOB, [CHECK], builders.events):
        pid, ended = builders.wait_for(2)
    assert pid != 0
    assert ended == 0
    assert _built(builds)


def test_a_build_ends_with_the_checks_if_none_needs_it_any_more(builds: Path) -> None:
    builders = Builders()
    with building_ahead(JOB, [CHECK], builders.events):
        (pid,) = builders.wait_for(1)
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert _built(builds) == []


def test_a_build_that_fails_is_left_to_the_check(builds: Path) -> None:
    builders = Builders()
    with building_ahead(replace(JOB, cell=CellName("no_such_op", "port", "cpu")), [CHECK], builders.events):
        assert builders.wait_for(2)[1] == 0


@pytest.mark.parametrize(
    ("job", "check"),
    [(replace(JOB, cell=CellName("add", "prototype", "cpu")), CHECK), (JOB, replace(CHECK, form=None))],
)
def test_nothing_is_built_where_no_check_needs_it(job: Job, check: Check) -> None:
    builders = Builders()
    with building_ahead(job, [check], builders.events):
        pass
    assert builders.all() == []
