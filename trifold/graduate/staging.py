"""A folder that appears complete, at once, or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trifold.errors import GraduationError


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder next to ``target`` to write into; it becomes ``target`` if the block ends without an exception.

    Two processes cannot write one target at a time; leftovers of a killed one are removed.

    Raises:
        GraduationError: ``target`` exists or cannot be made, or another process is writing it.
    """
    target = target.expanduser().absolute()
    _require_new(target)
    stage = target.with_name(f".{target.name}.graduating")
    lock = _lock(stage, target)
    try:
        for leftover in stage.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() and not leftover.is_symlink() else leftover.unlink()
        yield stage
        _require_new(target)
        os.rename(stage, target)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _require_new(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise GraduationError(f"{target} exists already", "name a new folder with --out, or remove that one")
    if not target.parent.is_dir():
        raise GraduationError(f"there is no folder {target.parent}", f"mkdir -p {target.parent}")


def _lock(stage: Path, target: Path) -> int:
    """A descriptor of the folder ``stage``, locked; the kernel releases it when the process ends."""
    while True:
        try:
            stage.mkdir(exist_ok=True)
            descriptor = os.open(stage, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise GraduationError(
                f"{target.parent} cannot be written: {error.strerror}", "name another folder with --out"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise GraduationError(
                f"another graduation is writing {target}", "wait for it, or name another folder"
            ) from None
        if stage.is_dir() and os.path.samestat(os.fstat(descriptor), stage.stat()):
            return descriptor
        os.close(descriptor)  # the process that held it has finished meanwhile
        _require_new(target)
