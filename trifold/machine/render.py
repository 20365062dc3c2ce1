"""A diagnosis for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from trifold import tables
from trifold.machine.diagnosis import Diagnosis


def render(diagnosis: Diagnosis) -> RenderableType:
    """The parts, the matrix, and then each remedy once."""
    signs = {"ok": Text("ok", "green"), "absent": Text("absent", "yellow"), "fault": Text("fault", "red")}
    parts = tables.plain("", "", "")
    for part in diagnosis.parts:
        parts.add_row(part.name, signs[part.state], Text(part.found))
    matrix = tables.plain("cell", "", "for want of")
    for cell in diagnosis.cells:
        runs = Text("runs", "green") if cell.runs else Text("does not run", "yellow")
        matrix.add_row(f"{cell.implementation} on {cell.device}", runs, ", ".join(cell.lacks))
    remedies = [Text(f"{part.name}: {part.remedy}") for part in diagnosis.parts if part.remedy]
    mend = [Text(), Text("To mend it", "bold"), *remedies] if remedies else []
    return Group(parts, Text(), matrix, *mend)
