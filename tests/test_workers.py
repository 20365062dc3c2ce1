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

SUITE: dict[str, Any] = {"args": ["tests"], "keyword": "", "markexpr": "", "capture": "fd", "extended": None}


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
    return pytest_xdist_auto_num_workers(_config(given))


def _config(given: dict[str, Any], **more: Any) -> Any:
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    return SimpleNamespace(args=given["args"], option=SimpleNamespace(**given), hook=hook, **more)


def _selected(**given: Any) -> set[str]:
    """Of ten extended tests, a to j, and another one, those that run."""
    items: list[Any] = [_Item(f"tests/test_build.py::test_{name}", None, extended=True) for name in "abcdefghij"]
    items.append(_Item("tests/test_build.py::test_k", None))
    pytest_collection_modifyitems(_config(SUITE | given), items)
    return {item.nodeid[-1] for item in items}


def test_extended_tests_run_where_they_are_asked_for() -> None:
    assert _selected() == {"k"}
    for asked in ({"extended": "1/1"}, {"args": [__file__]}, {"keyword": "build"}, {"markexpr": "extended"}):
        assert _selected(**asked) == set("abcdefghijk")


def test_parts_of_the_extended_tests_are_all_of_them_together() -> None:
    parts = [_selected(extended=f"{part}/3") - {"k"} for part in (1, 2, 3)]
    assert all(parts)
    assert sorted(name for part in parts for name in part) == list("abcdefghij")


@pytest.mark.parametrize("option", ["", "4/3", "0/3", "two"])
def test_a_part_that_is_none_is_refused(option: str) -> None:
    with pytest.raises(pytest.UsageError, match="a part of the tests such as 2/4"):
        _selected(extended=option)


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
    """A test; with ``slow`` None it is not marked so, with 0.0 without its seconds."""

    def __init__(self, nodeid: str, slow: float | None, *, extended: bool = False) -> None:
        self.nodeid, self.slow, self.extended = nodeid, slow, extended

    def get_closest_marker(self, name: str) -> object:
        if name == "extended":
            return pytest.mark.extended.mark if self.extended else None
        if self.slow is None or name != "slow":
            return None
        return pytest.mark.slow(**{"seconds": self.slow} if self.slow else {}).mark


def test_workers_begin_with_what_is_slow_the_longest_first_and_keep_the_order_within_a_file() -> None:
    names = {
        "tests/test_build.py::test_a": None,
        "tests/test_cli.py::test_b": None,
        "tests/test_cli.py::test_c": 0.0,
        "tests/test_wrong.py::test_d": None,
        "tests/test_wrong.py::test_e": 0.0,
        "tests/test_wrong.py::test_f": 30.0,
    }
    items: list[Any] = [_Item(*item) for item in names.items()]
    pytest_collection_modifyitems(_config(SUITE), items)
    assert [item.nodeid for item in items] == list(names)
    pytest_collection_modifyitems(_config(SUITE, workerinput={}), items)
    assert [item.nodeid[-1] for item in items] == ["f", "b", "c", "e", "a", "d"]
