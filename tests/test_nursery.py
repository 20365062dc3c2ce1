"""Workers forked by a process that has imported what they need: as fresh ones, only sooner."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.cells import CellName
from trifold.isolation import nursery
from trifold.verification.job import WORKER, Job
from trifold.verification.report import Row
from trifold.verification.runner import run_cell

ADD = CellName("add", "prototype", "cpu")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[nursery.Forked | None]:
    """The result of each start of a worker: None if it must be a fresh process."""
    starts: list[nursery.Forked | None] = []
    original = nursery.start

    def start(worker: str, job: str, environment: dict[str, str], events: int, output: int) -> nursery.Forked | None:
        starts.append(original(worker, job, environment, events, output))
        return starts[-1]

    monkeypatch.setattr(nursery, "start", start)
    return starts


def row_of(cell: CellName, check: str) -> Row:
    (row,) = run_cell(Job(str(GALLERY.root), cell, (check,), examples=4), timeout=60)
    return row


@pytest.mark.parametrize(
    ("cell", "check"),
    [
        (ADD, "errors"),
        *(
            pytest.param(  # in a process more of the op
                CellName("add", kind, "cuda"), "bounds", marks=[pytest.mark.gpu, pytest.mark.slow(seconds=180)]
            )
            for kind in ("prototype", "port")
        ),
    ],
    ids=str,
)
def test_a_forked_worker_gives_the_row_of_a_fresh_one(
    cell: CellName, check: str, started: list[nursery.Forked | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    forked = row_of(cell, check)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # read when a process starts: no fork can have it
    fresh = row_of(cell, check)
    assert [worker is None for worker in started] == [False, True]
    assert (forked.outcome, forked.cases, forked.failures) == (fresh.outcome, fresh.cases, fresh.failures)
    assert forked.outcome == "passed"


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("os._exit(7)", "the worker ended with status 7 during build"),
        ("os.kill(os.getpid(), 11)", "the worker died of SIGSEGV.*verify/add.py.*, line 2 in <module> during build"),
    ],
)
def test_how_a_forked_worker_ended_is_told(
    end: str, says: str, started: list[nursery.Forked | None], tmp_path: Path
) -> None:
    workspace = copy_of_gallery("add", tmp_path)
    spec = workspace.op("add").spec
    spec.write_text(f"import os\n{end}\n", encoding="utf-8")
    rows = run_cell(Job(str(workspace.root), ADD, ("errors",)), timeout=60)
    assert started != [None]
    assert re.search(says, rows[0].failures[0].message)


def test_where_the_nursery_was_killed_workers_are_fresh() -> None:
    own = nursery.Nursery()
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    read, write = os.pipe()
    with tempfile.TemporaryFile() as output:
        job = Job(str(GALLERY.root), ADD, ("errors",)).to_json()
        worker = own.start(WORKER, job, environment, write, output.fileno())
        assert worker is not None
        assert worker.wait() == 0
        assert own._process is not None
        os.kill(own._process.pid, signal.SIGKILL)
        own._process.wait()
        assert own.start(WORKER, job, environment, write, output.fileno()) is None
    os.close(read)
    os.close(write)
    own.close()


def test_two_threads_that_wait_get_the_same_status() -> None:
    """One that has given up waiting may still read when the next one waits."""
    read, write = os.pipe()
    forked = nursery.Forked(1, os.fdopen(read, "rb", buffering=0))
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(forked.wait) for _ in range(2)]
        for digit in b"17\n":
            time.sleep(0.02)
            os.write(write, bytes([digit]))
        assert [each.result() for each in waits] == [17, 17]
    os.close(write)


def test_none_is_open_where_it_would_not_pay() -> None:
    assert nursery._open, "that of the tests"
    on_gpu = CellName("add", "port", "cuda")
    many = [ADD] * 2
    held = nursery._open.pop()
    try:
        for few in ([ADD], [ADD, on_gpu], [on_gpu] * 2):
            with nursery.opened_for(few):
                assert not nursery._open
        with nursery.opened_for(many):
            assert len(nursery._open) == 1
            with nursery.opened_for(many):
                assert len(nursery._open) == 1
        assert not nursery._open
    finally:
        nursery._open.append(held)
