"""For all tests: workers of a verification are forked from one process, which starts when a test needs the first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trifold.verification import nursery


@pytest.fixture(scope="session", autouse=True)
def _nursery() -> Iterator[None]:
    with nursery.opened():
        yield
