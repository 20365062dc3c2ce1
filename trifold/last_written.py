"""The text that trifold last wrote of a file of an op, by which one that was edited is told from one that was not."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(".trifold") / "drafts"


def place(path: Path, root: Path) -> Path:
    """Where the last text of ``path`` is kept, in the workspace at ``root``."""
    return root / _FOLDER / path.name


def keep(path: Path, text: str, root: Path) -> None:
    """From now on ``text`` is the last one of ``path``: as long as the file has it, ``trifold draft`` replaces it."""
    kept = place(path, root)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(text, encoding="utf-8")
