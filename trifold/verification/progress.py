"""The progress of ``trifold verify``: a line at the bottom of a terminal; elsewhere a line for each op that ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from trifold.cells import CellName
from trifold.verification.report import Row
from trifold.verification.watch import Watch


class Progress(Watch):
    """Counts checks, and prints lines of progress.

    A line for each check that fails, with the first line of its message: the whole message comes at the end. If the
    console is no terminal, also one for each op when its last cell ends.

    >>> progress = Progress(Console(width=80))
    >>> cell = CellName("add", "port", "cpu")
    >>> progress.planned(cell, ["build", "values"])
    >>> progress.began(cell, "build")
    >>> progress.ended(cell, Row("build", "port", "cpu", "passed"))
    >>> str(progress.line())
    '1 of 2 checks, 0 failed, 0:00  add port·cpu: build'
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._running = ""
        self._planned: dict[CellName, set[str]] = {}
        self._done: dict[CellName, set[str]] = {}
        self._failed: dict[CellName, set[str]] = {}
        self._rows: dict[CellName, Sequence[Row]] = {}  # of cells that have ended

    def planned(self, cell: CellName, checks: Collection[str]) -> None:
        with self._lock:
            self._planned[cell] = set(checks)

    def began(self, cell: CellName, check: str) -> None:
        with self._lock:
            self._running = f"{cell}: {check}" if check else str(cell)

    def ended(self, cell: CellName, row: Row) -> None:
        with self._lock:
            self._done.setdefault(cell, set()).add(row.check)
            if row.outcome == "failed":
                self._fail(cell, row)

    def finished(self, cell: CellName, rows: Sequence[Row]) -> None:
        with self._lock:
            self._done[cell] = self._planned.setdefault(cell, set())
            self._rows[cell] = rows
            for row in rows:
                if row.outcome == "failed":
                    self._fail(cell, row)
            mine = [each for each in self._planned if each.op == cell.op]
            if not self._console.is_terminal and all(each in self._rows for each in mine):
                self._print(self._of_op(cell.op, mine))

    def line(self) -> Text:
        """Checks that ended, out of all; failures so far; elapsed time; and the check that began last."""
        with self._lock:
            done = sum(len(self._done.get(cell, set()) & checks) for cell, checks in self._planned.items())
            total = sum(map(len, self._planned.values()))
            failed = sum(map(len, self._failed.values()))
            if not total:
                return Text(f"starting, {self._clock()}")
            style = "bold red" if failed else ""
            count = (f"{failed} failed", style)
            return Text.assemble(f"{done} of {total} checks, ", count, f", {self._clock()}  {self._running}")

    def _fail(self, cell: CellName, row: Row) -> None:
        of_cell = self._failed.setdefault(cell, set())
        if row.check in of_cell:
            return
        of_cell.add(row.check)
        first = next((f": {line}" for failure in row.failures for line in failure.message.splitlines()), "")
        self._print(Text.assemble((f"✗ {cell} {row.check}", "bold red"), first))

    def _of_op(self, op: str, cells: Sequence[CellName]) -> Text:
        rows = [row for cell in cells for row in self._rows[cell]]
        passed = sum(row.outcome == "passed" for row in rows)
        failed = [
            f"{cell.implementation}·{cell.device} {row.check}"
            for cell in cells
            for row in self._rows[cell]
            if row.outcome == "failed"
        ]
        names = f" ({', '.join(failed)})" if failed else ""
        return Text(f"{op}: {passed} passed, {len(failed)} failed{names}, {self._clock()}")

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)

    def _clock(self) -> str:
        """The elapsed time, in minutes and seconds."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}:{seconds:02}"


@contextmanager
def shown(console: Console) -> Iterator[Progress]:
    """Shows progress on this console; removes the line at the bottom of a terminal at the end."""
    progress = Progress(console)
    if not console.is_terminal:
        yield progress
        return
    spinner = Spinner("dots")

    def line() -> Spinner:
        spinner.update(text=progress.line())
        return spinner

    with Live(get_renderable=line, console=console, transient=True, refresh_per_second=8):
        yield progress
