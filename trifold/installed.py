"""Where the compiled parts of trifold lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from trifold.errors import ToolchainError

CPU_LIBRARY = "libtrifold_host.so"


def find(name: str) -> Path | None:
    """The file that the installation put into the package under this name; None where it was not built."""
    return next((folder / name for folder in _package_folders() if (folder / name).is_file()), None)


def cpu_library() -> Path:
    """The library that runs kernels on the CPU, with which ports are linked.

    Raises:
        ToolchainError: it was not built: trifold is not installed.
    """
    path = find(CPU_LIBRARY)
    if path is None:
        raise ToolchainError(f"trifold's library {CPU_LIBRARY} is not built here", "install trifold: pip install -e .")
    return path


def _package_folders() -> Iterator[Path]:
    """Where the package lies: an editable install has its sources in one folder, and what was built in another."""
    yield Path(__file__).resolve().parent
    with suppress(PackageNotFoundError):
        yield Path(str(distribution("trifold").locate_file("trifold")))
