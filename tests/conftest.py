"""For all tests: workers of a verification are forked from one process, which starts when a test needs the first."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import torch

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
