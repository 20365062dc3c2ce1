"""Counts the lines of a prototype that run in its process, with coverage.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lines_of(prototype: Path, folder: Path) -> Iterator[None]:
    """Count the lines of ``prototype`` that this process runs within the context; writes the data into ``folder``."""
    import coverage

    counting = coverage.Coverage(
        data_file=str(folder / "data"),
        data_suffix=True,  # a cell has several processes if its worker died
        branch=True,
        config_file=False,
        include=[str(prototype)],
        concurrency=["thread", "greenlet"],  # kernels whose source the simulator cannot read run on greenlets
    )
    counting.start()
    try:
        yield
    finally:
        counting.stop()
        counting.save()
