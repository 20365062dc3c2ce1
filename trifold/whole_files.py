"""Files that other processes read while they are written."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file that is never incomplete: readers see the content before, or all of ``text``.

    If ``path`` is a link, the link is replaced, and its target is kept.

    Raises:
        OSError: the folder does not exist or cannot be written, or the disk is full; the file is as before.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
