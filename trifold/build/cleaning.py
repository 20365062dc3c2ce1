"""Removes builds from the cache: never one in progress, and never files that are not the cache's own."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import filelock

from trifold.build import cache

# <op>-<target>-<hash>, and the files that belong to it: see cache.py.
_ENTRY = re.compile(r"(?P<entry>.+-[0-9a-f]{20})(?P<rest>|\.lock|\.log|\.partial-\w+)")
DAY_S = 24 * 3600.0


@dataclass(frozen=True)
class CachedBuild:
    """One build's folder, its log, and the leftovers of attempts, as far as they exist."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def lock(self) -> Path:
        return self.folder.with_name(f"{self.name}.lock")

    def leftovers(self) -> list[Path]:
        """Folders of attempts."""
        return [path for path in self.folder.parent.glob(f"{self.name}.partial-*") if path.is_dir()]

    def parts(self) -> list[Path]:
        """All but the lock: another process may wait for that file."""
        log = self.folder.with_name(f"{self.name}.log")
        return [path for path in (self.folder, log, *self.leftovers()) if path.exists() and not path.is_symlink()]

    def is_held(self) -> bool:
        """Whether a process is building it."""
        if not self.lock.exists():
            return False
        try:
            with filelock.FileLock(self.lock, timeout=0):
                return False
        except filelock.Timeout:
            return True

    def last_used(self) -> float:
        """The time of its last use or failure; as :func:`time.time`."""
        times = [0.0]
        for path in (self.folder / cache.STAMP, self.folder, self.folder.with_name(f"{self.name}.log")):
            with suppress(OSError):
                times.append(path.lstat().st_mtime)
        return max(times)


@dataclass
class Cleaned:
    """The result of :func:`clean`.

    Attributes:
        removed: names of builds; held: names of those in progress, which were kept.
        size: bytes of the removed ones.
    """

    removed: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    size: int = 0


def entries(builds: Path) -> Iterator[CachedBuild]:
    """The builds in a cache's folder, sorted by name; files of other names are not the cache's."""
    if not builds.is_dir():
        return
    matches = (_ENTRY.fullmatch(path.name) for path in builds.iterdir())
    for name in sorted({match["entry"] for match in matches if match}):
        yield CachedBuild(builds / name)


def clean(*, older_than_days: float | None = None, dry_run: bool = False) -> Cleaned:
    """Remove the builds of the cache, and the leftovers of killed builds.

    Args:
        older_than_days: only those not used for this long.
        dry_run: remove nothing, and return what would be removed.

    Raises:
        OSError: a file cannot be removed.
    """
    limit = None if older_than_days is None else time.time() - older_than_days * DAY_S
    done = Cleaned()
    for entry in entries(cache.cache_folder() / "builds"):
        recent = limit is not None and entry.last_used() > limit
        parts = entry.leftovers() if recent else entry.parts()
        if not parts:
            continue
        lock = filelock.FileLock(entry.lock, timeout=0, mode=0o600)
        try:
            with lock:
                done.size += sum(map(size_of, parts))
                done.removed.append(entry.name)
                for path in () if dry_run else parts:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        except filelock.Timeout:
            done.held.append(entry.name)
    return done


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; links count as themselves."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if each.is_symlink() or each.is_file())
