"""Progress of a run on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

T = TypeVar("T")


class Report:
    """Passes text on to ``show``, with a bar on standard error below it if that is a terminal.

    The bar is drawn only between steps, since a thread that drew it meanwhile would disturb the timing. It is removed
    while text is shown: both may go to one terminal, and only the bar knows.
    """

    def __init__(self, total: int, show: Callable[[str], None]) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        times = (TimeElapsedColumn(), TimeRemainingColumn())
        self._bar = Progress(
            *(*columns, *times),
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)
        self._show = show

    def text(self, text: str) -> None:
        self._bar.stop()
        self._show(text)

    def over(self, label: str) -> None:
        """Another step with this name has finished; steps may overlap."""
        self._bar.update(self._task, description=label, advance=1)
        self._bar.start()
        self._bar.refresh()

    def steps(self, steps: Iterable[T], label: Callable[[T], str]) -> Iterator[T]:
        """``steps`` in order, each shown by name while it runs."""
        for step in steps:
            self._bar.update(self._task, description=label(step))
            self._bar.start()
            self._bar.refresh()
            try:
                yield step
            finally:
                self._bar.advance(self._task)
                self._bar.stop()
