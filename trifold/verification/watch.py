"""Notifications of a verification while it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from trifold.cells import CellName
from trifold.verification.report import Row


class Watch:
    """Follows a verification; this base class ignores it. The threads that run cells call its methods."""

    def planned(self, cell: CellName, checks: Collection[str]) -> None:
        """The rows that a cell will have: called first with those of every op, then also with the properties of its
        spec."""

    def began(self, cell: CellName, check: str) -> None:
        """A check begins; the name is empty before the first one."""

    def ended(self, cell: CellName, row: Row) -> None:
        """A check ended with this row. If the worker dies in the same check later, another row replaces it."""

    def finished(self, cell: CellName, rows: Sequence[Row]) -> None:
        """A cell has ended, with all its rows."""


class InWords(Watch):
    """Prints in a few words what runs, and nothing else."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def began(self, cell: CellName, check: str) -> None:
        self._show(f"{cell}: {check}" if check else str(cell))
