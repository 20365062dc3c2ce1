"""Paths of trifold's compiled parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from trifold.errors import ToolchainError

CPU_LIBRARY = "libtrifold_cpu.so"


def find(name: str) -> Path | None:
    """The installed file with this name; None if it was not built."""
    return next((folder / name for folder in _package_folders() if (folder / name).is_file()), None)


def cpu_library() -> Path:
    """The library that runs kernels on the CPU, which ports link.

    Raises:
        ToolchainError: it was not built: trifold is not installed.
    """
    path = find(CPU_LIBRARY)
    if path is None:
        raise ToolchainError(f"trifold's library {CPU_LIBRARY} is not built here", "install trifold: pip install -e .")
    return path


def _package_folders() -> Iterator[Path]:
    """The package's folders: an editable install has its sources in one, and its build results in another."""
    yield Path(__file__).resolve().parent
    with suppress(PackageNotFoundError):
        yield Path(str(distribution("trifold").locate_file("trifold")))
