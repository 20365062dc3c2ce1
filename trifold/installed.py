"""Where the compiled parts of trifold lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import trifold


def find(name: str) -> Path | None:
    """The file that the installation put into the package under this name; None where it was not built."""
    return next((folder / name for folder in _package_folders() if (folder / name).is_file()), None)


def _package_folders() -> Iterator[Path]:
    """Where the package lies: an editable install has its sources in one folder, and what was built in another."""
    yield from map(Path, trifold.__path__)
    # `python -m trifold` in the sources' own folder knows of no other one: ask the installation.
    with suppress(PackageNotFoundError):
        yield Path(str(distribution("trifold").locate_file("trifold")))
