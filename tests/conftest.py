"""For all tests: workers of a verification are forked from one process, which starts when a test needs the first."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from trifold.isolation import nursery


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
