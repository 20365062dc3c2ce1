"""The cells of the matrix: which implementation, on which device; and the forms of a build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ImplementationKind = Literal["prototype", "port"]
Device = Literal["cpu", "cuda"]
CELLS: tuple[tuple[ImplementationKind, Device], ...] = (
    ("prototype", "cpu"),
    ("prototype", "cuda"),
    ("port", "cpu"),
    ("port", "cuda"),
)

# The builds of a port: for use; by g++ with a check of each memory access; for a debugger; by g++ with coverage; by
# nvcc with pauses around synchronisation.
Form = Literal["fast", "checked", "debug", "coverage", "jittered"]


@dataclass(frozen=True)
class CellName:
    """A cell of the matrix: one op's implementation on a device."""

    op: str
    implementation: ImplementationKind
    device: Device

    def __str__(self) -> str:
        return f"{self.op} {self.implementation}·{self.device}"
