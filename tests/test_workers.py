"""How the tests are spread over processes (conftest.py in the repository's folder)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conftest import TogetherWhatShares, pytest_xdist_auto_num_workers

SUITE: dict[str, Any] = {"args": ["tests", "verify"], "keyword": "", "markexpr": "", "capture": "fd"}


@pytest.mark.parametrize(
    "given",
    [
        {"args": [__file__]},
        {"args": ["tests", f"{__file__}::test_one_process"]},
        {"keyword": "sigmoid and gradcheck"},
        {"markexpr": "not slow"},
        {"capture": "no"},
    ],
    ids=str,
)
def test_one_process(given: dict[str, Any]) -> None:
    assert _workers(SUITE | given) == 0


def test_the_whole_suite_has_workers() -> None:
    assert _workers(SUITE) >= 1


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
