"""How the tests are spread over processes (conftest.py in the repository's folder)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conftest import (
    MOST_ON_A_GPU,
    MOST_WORKERS,
    TogetherWhatShares,
    pytest_collection_modifyitems,
    pytest_xdist_auto_num_workers,
)

SUITE: dict[str, Any] = {"args": ["tests", "verify"], "keyword": "", "markexpr": "", "capture": "fd"}


@pytest.mark.parametrize(
    "given",
    [
        {"args": [__file__]},
        {"args": ["tests", f"{__file__}::test_one_process"]},
        {"keyword": "sigmoid and gradcheck"},
        {"markexpr": "not slow"},
        {"markexpr": "gpu", "keyword": "agreement"},
        {"markexpr": "gpu", "args": [__file__]},
        {"capture": "no"},
    ],
    ids=str,
)
def test_one_process(given: dict[str, Any]) -> None:
    assert _workers(SUITE | given) == 0


@pytest.mark.parametrize("expression", ["", "gpu"])
def test_the_whole_suite_has_workers_and_so_has_all_that_needs_a_gpu(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _workers(SUITE | {"markexpr": expression}) >= 1
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)))
    assert _workers(SUITE | {"markexpr": expression}) == (MOST_ON_A_GPU if expression else MOST_WORKERS)


def _workers(given: dict[str, Any]) -> int:
    config: Any = SimpleNamespace(args=given["args"], option=SimpleNamespace(**given))
    return pytest_xdist_auto_num_workers(config)


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/test_wrong.py::test_a_wrong_one_is_rejected[add port: zeros]", None),
        ("tests/test_build.py::test_it[a-b]", "tests/test_build.py"),
        ("verify/add.py::values[port-cpu]", "verify/add.py[port-cpu]"),
        ("verify/add.py::property: large[port-cpu]", "verify/add.py[port-cpu]"),
        ("verify/add.py::values[prototype-cpu]", "verify/add.py[prototype-cpu]"),
    ],
)
def test_what_shares_something_runs_in_one_process(test: str, scope: str | None) -> None:
    assert TogetherWhatShares._split_scope(None, test) == (scope or test)  # type: ignore[arg-type]


class _Item:
    def __init__(self, nodeid: str, slow: bool) -> None:
        self.nodeid, self.slow = nodeid, slow

    def get_closest_marker(self, name: str) -> object:
        return name if self.slow and name == "slow" else None


def test_workers_begin_with_what_is_slow_and_keep_the_order_within_a_file() -> None:
    names = {
        "tests/test_build.py::test_a": False,
        "tests/test_cli.py::test_b": False,
        "tests/test_cli.py::test_c": True,
        "tests/test_wrong.py::test_d": False,
        "tests/test_wrong.py::test_e": True,
    }
    items: list[Any] = [_Item(*item) for item in names.items()]
    alone: Any = SimpleNamespace()
    pytest_collection_modifyitems(alone, items)
    assert [item.nodeid for item in items] == list(names)
    worker: Any = SimpleNamespace(workerinput={})
    pytest_collection_modifyitems(worker, items)
    assert [item.nodeid[-1] for item in items] == ["b", "c", "e", "a", "d"]
