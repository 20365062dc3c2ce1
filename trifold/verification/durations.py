"""How long each cell of a workspace took in its last complete run, so that the longest can start first."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from trifold.cells import CellName
from trifold.whole_files import write_whole
from trifold.workspace import Workspace


def durations(workspace: Workspace) -> dict[CellName, float]:
    """Seconds of each cell that has run completely; empty if the file cannot be read."""
    found: dict[CellName, float] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        for op, implementation, device, seconds in json.loads(_path(workspace).read_text(encoding="utf-8")):
            found[CellName(op, implementation, device)] = float(seconds)
    return found


def keep_durations(workspace: Workspace, measured: Mapping[CellName, float]) -> None:
    """Store further durations. Does nothing where the folder is not writable."""
    known = {**durations(workspace), **measured}
    path = _path(workspace)
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        rows = [[cell.op, cell.implementation, cell.device, round(known[cell], 1)] for cell in sorted(known, key=str)]
        write_whole(path, json.dumps(rows))


def _path(workspace: Workspace) -> Path:
    return workspace.root / ".trifold" / "durations.json"
