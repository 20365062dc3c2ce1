"""``pytest --simulator``: kernels of the tests run in the simulator, with its checks.

    pytest --simulator --simulator-checks race,uninitialised --simulator-schedules 4 --simulator-report findings.json

A finding fails the test that launched the kernel; with ``--simulator-keep-going`` it is counted, and fails the run. A
summary at the end lists each place once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from trifold.errors import TrifoldError

_OPTIONS = ("checks", "seed", "schedules", "report", "keep_going", "suppressions", "compiled")
_summary = pytest.StashKey[Any]()  # a Summary, in the main process under pytest-xdist
_lines = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trifold")
    group.addoption("--simulator", action="store_true", help="run Numba CUDA kernels on the CPU, with checks")
    group.addoption("--simulator-checks", metavar="LIST", help="all (default), none, or race, uninitialised, lint")
    group.addoption("--simulator-seed", metavar="N", help="order of blocks and threads; 0 is the natural one")
    group.addoption("--simulator-schedules", metavar="N", help="run each launch in N orders")
    group.addoption("--simulator-report", metavar="FILE", help="write all findings to this file, as JSON")
    group.addoption(
        "--simulator-keep-going", action="store_true", default=None, help="let tests go on after findings; count them"
    )
    group.addoption(
        "--simulator-compiled", action="store_true", default=None, help="run kernels as native code, where possible"
    )
    group.addoption("--simulator-suppressions", metavar="FILE", help="TOML: findings that are accepted, with reasons")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Runs before any conftest.py imports numba."""
    given = early_config.known_args_namespace
    chosen = {name: getattr(given, f"simulator_{name}") for name in _OPTIONS}
    if not given.simulator:
        if any(value is not None for value in chosen.values()):
            raise pytest.UsageError("--simulator-… options need --simulator")
        return
    from trifold.simulator.report import Summary
    from trifold.simulator.startup import activate

    try:
        if "PYTEST_XDIST_WORKER" in os.environ and "TRIFOLD_REPORT" in os.environ:
            chosen["report"] = os.environ["TRIFOLD_REPORT"]
        else:
            summary = early_config.stash[_summary] = Summary(Path(chosen["report"]) if chosen["report"] else None)
            chosen["report"] = summary.path
        activate(**chosen)
    except TrifoldError as error:
        raise pytest.UsageError(f"--simulator: {error}") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.option.simulator:
        return None
    from trifold.simulator import current

    now = current()
    return f"simulator: checks {', '.join(sorted(now.checks))}; seed {now.seed}; schedules {now.schedules}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that continued after findings fails."""
    config = session.config
    if _summary not in config.stash:
        return
    from trifold import places
    from trifold.simulator import report

    content = config.stash[_summary].end()
    found, tests = report.findings_of(content)
    kept = {number: finding for number, finding in enumerate(found) if finding.is_mistake or finding.accepted}
    met = {position: tests[number] for position, number in enumerate(kept)}
    mistakes = [finding for finding in found if finding.is_mistake]
    went_on = config.option.simulator_keep_going or not mistakes
    lines = places.summary(kept.values(), content["allowed"] if went_on else [], tests=met)
    config.stash[_lines] = [*lines, places.total(mistakes)] if mistakes else lines
    if mistakes and session.exitstatus == pytest.ExitCode.OK and config.option.simulator_keep_going:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(_lines, [])
    if lines:
        terminalreporter.section("findings in kernels")
    for line in lines:
        terminalreporter.line(line)
