"""Errors for constructs that `trifold draft` cannot translate. It never writes code with another meaning."""

from __future__ import annotations

from dataclasses import dataclass

from trifold.errors import TrifoldError


@dataclass(frozen=True)
class Place:
    """A place in a Python file; lines count from 1, columns from 0."""

    path: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class DraftError(TrifoldError):
    """The prototype has a construct that cannot be translated; ``place`` is its line."""

    def __init__(self, place: Place, problem: str, remedy: str = "") -> None:
        super().__init__(f"{place}: {problem}", remedy)
        self.place = place
