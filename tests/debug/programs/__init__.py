"""Programs that the tests start: to be debugged, or to debug others."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
# The package is found where it is tested, also where it is not installed.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
}


def line_of(text: str, path: Path) -> int:
    """The number of the first line of ``path`` that holds ``text``."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)
