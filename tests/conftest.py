"""For all tests: workers of a verification are forked from one process, which starts when a test needs the first."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import filelock
import pytest
import torch

from tests.quick_gxx import quick_gxx
from trifold.isolation import nursery


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``gpu`` are skipped where there is none, whatever else they state."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu") is not None:
                item.add_marker(pytest.mark.skip(reason="torch sees no GPU here"))


@pytest.fixture(scope="session", autouse=True)
def _nursery() -> Iterator[None]:
    with nursery.opened():
        yield


@pytest.fixture(scope="session", autouse=True)
def _interrupts() -> Iterator[None]:
    """Tests send themselves and their children Ctrl-C, which a shell makes its background jobs ignore."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", name="quick_gxx")
def _quick_gxx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The g++ for ops of tests, which no other run builds: one for all workers of pytest-xdist."""
    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / "quick_gxx"
    with filelock.FileLock(folder.with_suffix(".lock")):
        if folder.exists():
            return folder / "g++"
        folder.mkdir()
        return quick_gxx(folder)


@pytest.fixture(scope="module")
def quick_builds(quick_gxx: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", str(quick_gxx))
        yield
