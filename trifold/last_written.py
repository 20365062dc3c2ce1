"""The text that trifold last wrote to a file of an op, which shows whether a user has edited it."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(".trifold") / "drafts"


def place(path: Path, root: Path) -> Path:
    """Return the file that stores the last text of ``path``, in the workspace at ``root``."""
    return root / _FOLDER / path.name


def keep(path: Path, text: str, root: Path) -> None:
    """Record ``text`` as the last one of ``path``: while the file has it, ``trifold draft`` may replace the file."""
    kept = place(path, root)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(text, encoding="utf-8")
