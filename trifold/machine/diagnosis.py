"""The result of examining a machine, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from trifold.cells import Device, ImplementationKind

State = Literal["ok", "absent", "fault"]


@dataclass(frozen=True)
class Part:
    """One examined part.

    Attributes:
        name: such as ``"g++"``.
        state: ``"ok"``; ``"absent"``, needed only by some cells; ``"fault"``, which should be fixed.
        found: its version and place, or its error.
        remedy: the command that fixes it; empty if there is nothing to fix.
    """

    name: str
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of the matrix, and the names of the parts without which it cannot run here."""

    implementation: ImplementationKind
    device: Device
    lacks: tuple[str, ...]

    @property
    def runs(self) -> bool:
        return not self.lacks


@dataclass(frozen=True)
class Diagnosis:
    """The whole result; see :func:`examine`."""

    parts: tuple[Part, ...]
    cells: tuple[Cell, ...]

    def __getitem__(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    def to_json(self) -> dict[str, Any]:
        """``parts``: name, state, found, remedy of each. ``cells``: implementation, device, runs, lacks of each."""
        return {
            "parts": [asdict(part) for part in self.parts],
            "cells": [asdict(cell) | {"lacks": list(cell.lacks), "runs": cell.runs} for cell in self.cells],
        }
