"""The whole suite runs on all CPUs (pytest-xdist), so that ``pytest`` alone is the fast way to run it.

A process more costs seconds before its first test: a file, a test, ``-k`` or ``-m`` runs in this process, and so does
what wants its terminal (``-s``, ``--pdb``). ``-m gpu``, all that needs a GPU, runs as the whole suite does: most of its
time is nvcc's. ``-n`` decides it otherwise.

Tests marked ``extended`` take long, and a cheaper test shows the same kind of thing. The whole suite and its folders
leave them out without ``--extended``; ``--extended=2/4`` runs the second of four parts of them, as does
``TRIFOLD_EXTENDED=2/4`` in the environment. A file, a test, ``-k`` or ``-m`` leaves out nothing.
"""

from __future__ import annotations

import gc
import os
import re
import zlib

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from trifold.verification import threads

MOST_WORKERS = 8  # each holds torch
MOST_ON_A_GPU = 24  # each holds a context and those of its tests' processes, half a GiB each

SLOW_S = 10.0  # of a test that is marked ``slow`` without its seconds

#: Files whose tests share nothing that takes long to make: each of them goes to whichever worker is free.
INDEPENDENT = ("tests/test_wrong.py", "tests/test_wrong_on_a_gpu.py", "tests/cpu/test_ports_agreement.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--extended",
        nargs="?",
        const="1/1",
        default=os.environ.get("TRIFOLD_EXTENDED"),
        metavar="K/N",
        help="also run tests marked extended: all, or part K of N",
    )


def _names_a_file(config: pytest.Config) -> bool:
    return any(os.path.isfile(argument.partition("::")[0]) for argument in config.args)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The number of workers for ``-n auto``; 0: none, all tests in this process."""
    option = config.option
    if _names_a_file(config) or option.keyword or option.markexpr not in ("", "gpu") or option.capture == "no":
        return 0
    cores = len(os.sched_getaffinity(0))
    if option.markexpr:  # tests wait for a GPU, and for faults that never end: 16 workers keep 9 of 16 cores busy
        return min(cores + cores // 2, MOST_ON_A_GPU)
    return min(cores, MOST_WORKERS)


def pytest_xdist_setupnodes() -> None:
    """Workers, however many were asked for, share the cores, as verification's workers do."""
    for name, value in threads.OF_A_WORKER.items():
        os.environ.setdefault(name, value)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with what is marked ``slow``, and what runs in one process with it, the longest first: else the
    last of it would run alone."""
    if not (_names_a_file(config) or config.option.keyword or config.option.markexpr):
        _leave_out_extended(config, items)
    if hasattr(config, "workerinput"):
        seconds: dict[str, float] = {}
        for item in items:
            marker = item.get_closest_marker("slow")
            if marker is not None:
                scope = _scope(item.nodeid)
                seconds[scope] = max(seconds.get(scope, 0.0), marker.kwargs.get("seconds", SLOW_S))
        items.sort(key=lambda item: -seconds.get(_scope(item.nodeid), 0.0))


def pytest_collection_finish() -> None:
    """What collection has made, 600,000 objects in the whole suite, is not searched for garbage during the tests."""
    gc.collect()
    gc.freeze()


def _leave_out_extended(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = _part(config.option.extended)
    left_out = [
        item
        for item in items
        if item.get_closest_marker("extended") is not None and zlib.crc32(item.nodeid.encode()) % parts != part
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _part(option: str | None) -> tuple[int, int]:
    """The index of the part of the extended tests that runs, and the number of parts: (1, 1) for none of them."""
    if option is None:
        return 1, 1
    if (given := re.fullmatch(r"(\d+)/(\d+)", option)) and 1 <= int(given[1]) <= int(given[2]):
        return int(given[1]) - 1, int(given[2])
    raise pytest.UsageError(f"--extended is a part of the tests such as 2/4, not {option!r}; without =, it is all")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return TogetherWhatShares(config, log)


class TogetherWhatShares(LoadScopeScheduling):
    """Tests of one file run in one worker, in order, since they share fixtures; so do the checks of one cell."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def _scope(nodeid: str) -> str:
    """The group of tests that run in one process."""
    file = nodeid.partition("::")[0]
    cell = re.fullmatch(r"(verify/\w+\.py)::.*(\[\w+-\w+\])", nodeid)
    return nodeid if file in INDEPENDENT else "".join(cell.groups()) if cell else file
