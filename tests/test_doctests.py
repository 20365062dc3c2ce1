"""The examples in the docstrings run, and give what they show."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trifold
from trifold.apart import far_apart
from trifold.cpu import RawKernel
from trifold.workspace import Workspace

GALLERY = Workspace.at(Path(__file__).parent.parent)


def failures(function: Callable[..., Any]) -> tuple[int, int]:
    """How many examples failed, and how many were tried."""
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(function, function.__name__, module=False, globs={}):
        runner.run(test)
    return runner.summarize(verbose=False)


PACKAGE = Path(trifold.__file__).parent
PUBLIC = (trifold.load, trifold.verify, trifold.reference, trifold.show, RawKernel, far_apart)
WITH_EXAMPLES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
}

_FIRST = ("add", "softmax", "normal_sample", "histogram", "topk")


@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=() if op in _FIRST else pytest.mark.extended) for op in GALLERY.ops()]
)
@pytest.mark.usefixtures("quick_builds")
def test_the_example_of_an_op_runs(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GALLERY.root)
    failed, tried = failures(trifold.load(op))
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__name__)
def test_the_example_of_the_toolkit_runs(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GALLERY.root)
    failed, tried = failures(function)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize("module", sorted(WITH_EXAMPLES - {each.__module__ for each in PUBLIC}))
def test_the_examples_of_a_module_run(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GALLERY.root)
    found = doctest.testmod(importlib.import_module(module))
    assert (found.failed, found.attempted > 0) == (0, True)
