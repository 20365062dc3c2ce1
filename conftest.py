"""The whole suite runs on all CPUs (pytest-xdist), so that ``pytest`` alone is the fast way to run it.

A process more costs seconds before its first test: a file, a test, ``-k`` or ``-m`` runs in this process, and so does
what wants its terminal (``-s``, ``--pdb``). ``-n`` decides it otherwise.
"""

from __future__ import annotations

import os
import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

MOST_WORKERS = 8  # each holds torch, and a GPU's context where there is one

#: Files whose tests share nothing that takes long to make: each of them goes to whichever worker is free.
INDEPENDENT = ("tests/test_wrong.py", "tests/test_wrong_on_a_gpu.py")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What ``-n auto`` means; 0: no worker, all in this process."""
    option = config.option
    named_a_file = any(os.path.isfile(argument.partition("::")[0]) for argument in config.args)
    if named_a_file or option.keyword or option.markexpr or option.capture == "no":
        return 0
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return TogetherWhatShares(config, log)


class TogetherWhatShares(LoadScopeScheduling):
    """Tests of one file run in one worker, in order, since they share fixtures; so do the checks of one cell."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        cell = re.fullmatch(r"(verify/\w+\.py)::.*(\[\w+-\w+\])", nodeid)
        return nodeid if file in INDEPENDENT else "".join(cell.groups()) if cell else file
