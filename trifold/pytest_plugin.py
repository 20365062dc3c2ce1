"""pytest collects ``verify/*.py`` of a workspace: each check of each cell is a test.

    pytest verify
    pytest verify -k "sigmoid and gradcheck"

A test's name is ``check[implementation-device]``. The checks of one cell run together in a worker process, as under
``trifold verify``; cells run side by side. What cannot run on this machine is skipped with its reason.

``--trifold-certified`` reads passed rows from the certificates written by ``trifold verify``.

Under pytest-xdist each worker verifies the cells of its own tests, one after the other: ``--dist loadfile`` keeps those
of a cell together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trifold.cells import CellName
    from trifold.verification.report import Row

_runs = pytest.StashKey["_Runs"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trifold")
    group.addoption("--trifold-timeout", type=float, default=120.0, help="seconds that one case of an op may take")
    group.addoption("--trifold-seed", type=int, default=None, help="draw other calls: a seed for hypothesis")
    group.addoption("--trifold-examples", type=int, default=None, help="calls drawn for each check that draws")
    group.addoption(
        "--trifold-certified",
        action="store_true",
        help="do not run again what a certificate of the same files and versions says has passed",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".py" or file_path.name.startswith("_"):
        return None
    from trifold.errors import WorkspaceError
    from trifold.workspace import Workspace

    try:
        workspace = Workspace.find(file_path.parent)
    except WorkspaceError:
        return None
    if file_path.parent != workspace.folder("verify"):
        return None
    return SpecFile.from_parent(parent, path=file_path)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _runs in session.stash:
        session.stash[_runs].close()


class SpecFile(pytest.File):
    """``verify/<op>.py``."""

    def collect(self) -> Iterator[pytest.Item]:
        from trifold.cells import CELLS, CellName
        from trifold.spec.load import load_spec
        from trifold.verification.checks import CHECKS
        from trifold.verification.report import BUILD
        from trifold.verification.worker import applies, property_check
        from trifold.workspace import Workspace

        workspace = Workspace.find(self.path.parent)
        spec = load_spec(workspace.op(self.path.stem))
        for kind, device in CELLS:
            cell = CellName(self.path.stem, kind, device)
            names = [check.name for check in CHECKS if device in check.devices]
            names += [property_check(stated).name for stated in spec.properties if applies(stated, cell)]
            for name in (BUILD, *names):
                yield CheckItem.from_parent(self, name=f"{name}[{kind}-{device}]", check=name, cell=cell)


class CheckFailure(Exception):
    """A failed row, with all of its text."""


class CheckItem(pytest.Item):
    """One check of one cell."""

    def __init__(self, *, check: str, cell: CellName, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.check = check
        self.cell = cell

    def runtest(self) -> None:
        if _runs not in self.session.stash:
            self.session.stash[_runs] = _Runs(self.session)
        row = self.session.stash[_runs].row(self)
        if row.outcome == "not run":
            pytest.skip(row.reason)
        if row.outcome == "failed":
            parts = [
                "\n".join(filter(None, [f.message, f.sample and f"case: {f.sample}", f.code])) for f in row.failures
            ]
            raise CheckFailure("\n\n".join(parts))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        if isinstance(excinfo.value, CheckFailure):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.cell} {self.check}"


class _Runs:
    """The selected cells: all started at the first test that needs any; under xdist each at its own first test."""

    def __init__(self, session: pytest.Session) -> None:
        from trifold.isolation import nursery
        from trifold.machine.cells import Machine
        from trifold.verification.schedule import worker_pool

        self._machine = Machine.here()
        self._options = session.config.option
        self._selected: dict[tuple[Path, CellName], list[str]] = {}
        for item in session.items:
            if isinstance(item, CheckItem):
                self._selected.setdefault((item.path, item.cell), []).append(item.check)
        self._nursery = contextlib.ExitStack()
        self._nursery.enter_context(
            nursery.opened_for(cell for _, cell in self._selected if not self._machine.lacks(cell))
        )
        self._pool = worker_pool(self._machine)
        self._rows: dict[tuple[Path, CellName], Future[list[Row]]] = {}
        if not hasattr(session.config, "workerinput"):  # which pytest-xdist gives its workers
            for path, cell in self._selected:
                self._started(path, cell)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._nursery.close()

    def _started(self, path: Path, cell: CellName) -> Future[list[Row]]:
        if (path, cell) not in self._rows:
            checks = tuple(self._selected[path, cell])
            self._rows[path, cell] = self._pool.submit(self._run, path, cell, checks)
        return self._rows[path, cell]

    def row(self, item: CheckItem) -> Row:
        from trifold.verification.report import ALL_CHECKS, Row

        cell = item.cell
        rows = self._started(item.path, cell).result()
        for row in rows:
            if row.check in (item.check, ALL_CHECKS):
                return row
        failed = [row for row in rows if row.outcome == "failed"]
        shown = self._selected[item.path, cell]
        if failed and not any(row.check in shown for row in failed):
            return failed[0]  # no test reports it: a failed build must not pass as skipped
        reason = f"not reached: {failed[0].check} failed" if failed else "it was not reached"
        return Row(item.check, cell.implementation, cell.device, "not run", reason=reason)

    def _run(self, path: Path, cell: CellName, checks: tuple[str, ...]) -> list[Row]:
        from trifold.verification.certificate import certified_rows
        from trifold.verification.job import Job
        from trifold.verification.verify import rows_of_cell
        from trifold.workspace import Workspace

        workspace = Workspace.find(path.parent)
        options = self._options
        examples, seed = options.trifold_examples, options.trifold_seed
        if options.trifold_certified:
            device = self._machine.device_name
            known = certified_rows(workspace, cell, device, examples=examples, seed=seed)
            if known:
                return known
        job = Job(str(workspace.root), cell, checks, (), examples, seed)
        return rows_of_cell(workspace, job, self._machine, options.trifold_timeout)
