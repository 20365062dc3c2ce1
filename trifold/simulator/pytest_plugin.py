"""``pytest --simulator``: kernels of the tests run in the simulator, with its checks.

    pytest --simulator --simulator-checks race,uninitialised --simulator-schedules 4 --simulator-report findings.json

A finding fails the test that launched the kernel.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trifold.errors import TrifoldError

_OPTIONS = ("checks", "seed", "schedules", "report")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trifold")
    group.addoption("--simulator", action="store_true", help="run Numba CUDA kernels on the CPU, with checks")
    group.addoption("--simulator-checks", metavar="LIST", help="all (default), none, or race, uninitialised, lint")
    group.addoption("--simulator-seed", metavar="N", help="order of blocks and threads; 0 is the natural one")
    group.addoption("--simulator-schedules", metavar="N", help="run each launch in N orders")
    group.addoption("--simulator-report", metavar="FILE", help="write all findings to this file, as JSON")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any conftest.py imports numba."""
    given = early_config.known_args_namespace
    chosen = {name: getattr(given, f"simulator_{name}") for name in _OPTIONS}
    if not given.simulator:
        if any(value is not None for value in chosen.values()):
            raise pytest.UsageError("--simulator-… options need --simulator")
        return
    from trifold.simulator import report
    from trifold.simulator.startup import activate

    try:
        activate(**chosen)
        if chosen["report"] and "PYTEST_XDIST_WORKER" not in os.environ:
            report.begin_anew(Path(chosen["report"]).absolute())
    except (TrifoldError, OSError) as error:
        raise pytest.UsageError(f"--simulator: {error}") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.option.simulator:
        return None
    from trifold.simulator import current

    now = current()
    return f"simulator: checks {', '.join(sorted(now.checks))}; seed {now.seed}; schedules {now.schedules}"
