"""Writes a set of files, all or none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from trifold.errors import WorkspaceError


def write_all(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write each file, and make its folders.

    All texts are first written to temporary files in the target folders, and then renamed. If anything fails, the
    previous state is restored.

    Args:
        force: replace files that exist.

    Raises:
        WorkspaceError: a file exists, or its folder cannot be written; nothing was written.
    """
    _require_free(texts, force)
    folders: list[Path] = []
    drafts: dict[Path, Path] = {}
    placed: list[Path] = []
    replaced: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            folders += _make_folder(path.parent)
            drafts[path] = path.with_name(f".{path.name}.new-{os.getpid()}")
            drafts[path].write_text(text, encoding="utf-8")
        for path, draft in drafts.items():
            if os.path.lexists(path):
                before = path.with_name(f".{path.name}.old-{os.getpid()}")
                path.replace(before)
                replaced[path] = before
            draft.replace(path)
            placed.append(path)
    except BaseException as error:
        for path in (*drafts.values(), *placed):
            with contextlib.suppress(OSError):
                path.unlink()
        for path, before in replaced.items():
            before.replace(path)
        for folder in reversed(folders):
            with contextlib.suppress(OSError):  # another process has created a file there
                folder.rmdir()
        if isinstance(error, OSError):
            raise WorkspaceError(
                f"{error.filename or 'a file'} cannot be written: {error.strerror}; nothing was written",
                "name a folder that you may write to, on a disk with room",
            ) from None
        raise
    for before in replaced.values():
        before.unlink()


def _require_free(texts: Mapping[Path, str], force: bool) -> None:
    folders = [path for path in texts if path.is_dir()]
    if folders:
        raise WorkspaceError(f"{folders[0]} is a folder, where a file was to be written", "rename it")
    present = [path for path in texts if os.path.lexists(path)]
    if present and not force:
        listing = ", ".join(str(path) for path in present)
        raise WorkspaceError(
            f"{listing} exist{'s' if len(present) == 1 else ''} already; nothing was written",
            "choose another name, or add --force to replace",
        )


def _make_folder(folder: Path) -> list[Path]:
    """Make it with its parents; return the new folders, outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
    return missing[::-1]
