"""The cache of finished builds: one folder each, which appears complete or not at all.

    <cache>/builds/<op>-<target>-<hash>/         the library, object or program, build.log, stamp.json, notes for gcov
    <cache>/builds/<op>-<target>-<hash>.lock     held by the process that builds it
    <cache>/builds/<op>-<target>-<hash>.log      what the compilers printed when the last attempt failed
    <cache>/builds/<op>-<target>-<hash>.partial-*   an attempt under way, or left by a process that was killed

<cache> is ``$TRIFOLD_CACHE_DIR``, or trifold's folder in the user's cache folder. Its contents are executed, so it must
belong to the user, and nobody else may write to it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import filelock
import platformdirs

from trifold.errors import BuildError

STAMP = "stamp.json"
LOG = "build.log"
NOTES_SUFFIX = ".gcno"  # gcov's notes on the lines of a library
# How long to wait for another process's build before saying so.
SILENT_WAIT_S = 3.0
# Each state of the sources has its own build; one that was not used for this long is removed.
UNUSED_LIMIT_S = 30 * 24 * 3600.0


def cache_folder() -> Path:
    """The cache's folder, whether or not it exists."""
    chosen = os.environ.get("TRIFOLD_CACHE_DIR")
    return Path(chosen).expanduser().absolute() if chosen else platformdirs.user_cache_path("trifold")


def builds_folder() -> Path:
    """The folder of finished builds; created, and private to the user.

    Raises:
        BuildError: it cannot be created or written, another user owns it, or others can write in it.
    """
    folder = cache_folder() / "builds"
    if forbidden := sorted(set(str(folder)) & set("$:\n")):
        raise BuildError(
            f"the path of the cache folder {folder} holds {', '.join(map(repr, forbidden))}, which ninja cannot read",
            "set TRIFOLD_CACHE_DIR to another folder",
        )
    try:
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"the cache folder {folder} cannot be created: {error.strerror}",
            "set TRIFOLD_CACHE_DIR to a folder that you can write",
        ) from None
    for path in (folder.parent, folder):
        require_private(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BuildError(
            f"the cache folder {folder} cannot be written", "set TRIFOLD_CACHE_DIR to a folder that you can write"
        )
    return folder


def require_private(path: Path) -> None:
    """Raise :class:`BuildError` if another user owns ``path`` or can write to it: its contents would be executed."""
    state = path.stat()
    if state.st_uid != os.geteuid():
        raise BuildError(
            f"{path} belongs to another user (uid {state.st_uid}): nothing is loaded from it",
            "set TRIFOLD_CACHE_DIR to a folder of your own",
        )
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BuildError(
            f"others can write {path} (mode {stat.filemode(state.st_mode)}): nothing is loaded from it",
            f"chmod -R go-w {path}, if you trust what it holds; or set TRIFOLD_CACHE_DIR to a folder of your own",
        )


@dataclass(frozen=True)
class Product:
    """A finished build: the library or object file, and the log."""

    path: Path
    log: Path


@dataclass(frozen=True)
class Entry:
    """The entry of one build in the cache."""

    folder: Path

    @property
    def failure_log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def product(self) -> Product | None:
        """The entry's product; None if there is none, or it is incomplete.

        Raises:
            BuildError: others can write to it.
        """
        try:
            stamp = json.loads((self.folder / STAMP).read_text(encoding="utf-8"))
            path = self.folder / stamp["file"]
            if path.stat().st_size != stamp["bytes"]:
                return None
            os.utime(self.folder / STAMP)  # marks its last use
        except (OSError, ValueError, KeyError, TypeError):
            return None
        require_private(self.folder)
        require_private(path)
        return Product(path, self.folder / LOG)

    @contextmanager
    def locked(self, notify: Callable[[str], None]) -> Iterator[None]:
        """Lock this entry against all other processes; ``notify`` is called if that takes more than a moment."""
        lock = filelock.FileLock(self.folder.with_name(f"{self.folder.name}.lock"), mode=0o600)
        try:
            lock.acquire(timeout=SILENT_WAIT_S)
        except filelock.Timeout:
            notify(f"waiting for another process that builds {self.folder.name} (lock: {lock.lock_file})")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def attempt(self) -> Iterator[Path]:
        """A fresh folder to build in, removed at the end. The entry must be locked.

        Also removes what a killed process left, including torch's own lock file.
        """
        for leftover in self.folder.parent.glob(f"{self.folder.name}.partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{self.folder.name}.partial-", dir=self.folder.parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, attempt: Path, file: Path) -> Product:
        """Make ``file`` (and the log) of ``attempt`` this entry's product: the stamp last, then all at once."""
        file.chmod(0o700)
        kept = {file.name, f"{file.name}.so", LOG}  # for a program, the library that it starts
        for path in attempt.iterdir():
            if path.is_dir():  # copies of headers
                shutil.rmtree(path)
            elif path.name not in kept and path.suffix != NOTES_SUFFIX:
                path.unlink()
        stamp = {"file": file.name, "bytes": file.stat().st_size}
        (attempt / STAMP).write_text(json.dumps(stamp), encoding="utf-8")
        shutil.rmtree(self.folder, ignore_errors=True)
        attempt.rename(self.folder)
        self.failure_log.unlink(missing_ok=True)
        self._remove_unused()
        return Product(self.folder / file.name, self.folder / LOG)

    def _remove_unused(self) -> None:
        """Remove the older builds of the same op for the same target."""
        limit = time.time() - UNUSED_LIMIT_S
        for stamp in self.folder.parent.glob(f"{self.folder.name.rpartition('-')[0]}-*/{STAMP}"):
            with suppress(OSError):  # another process may remove it as well
                if stamp.stat().st_mtime < limit:
                    shutil.rmtree(stamp.parent, ignore_errors=True)

    def keep_failure_log(self, attempt: Path) -> Path:
        """Move the log of a failed ``attempt`` to where it is kept."""
        (attempt / LOG).replace(self.failure_log)
        return self.failure_log


def tell_on_stderr(message: str) -> None:
    print(f"trifold: {message}", file=sys.stderr)
