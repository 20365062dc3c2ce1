"""A judge that was changed while it ran is noticed, and what was changed is named."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch

from trifold.spec import Spec
from trifold.verification import calls, cell, tolerance
from trifold.verification.checks import CHECKS, memory, values
from trifold.verification.integrity import Snapshot


def always(*given: Any, **named: Any) -> None:
    """Finds nothing wrong."""


@pytest.fixture
def before() -> Snapshot:
    return Snapshot()


def test_nothing_has_changed(before: Snapshot) -> None:
    assert before.changed() == []
    assert torch.equal(torch.ones(2), torch.ones(2))
    assert before.changed() == []


@pytest.mark.parametrize(
    ("owner", "name", "named"),
    [
        (tolerance, "mismatch", "trifold.verification.tolerance.mismatch"),
        (values, "compare", "trifold.verification.checks.values.compare"),
        (memory, "bounds", "trifold.verification.checks.memory.bounds"),
        (cell.Cell, "run_case", "trifold.verification.cell.Cell.run_case"),
        (calls.CallSource, "simulated", "trifold.verification.calls.CallSource.simulated"),
        (torch, "equal", "torch.equal"),
        (torch, "allclose", "torch.allclose"),
        (torch.Tensor, "abs", "torch.Tensor.abs"),
        (torch.Tensor, "__le__", "torch.Tensor.__le__"),
        (torch.autograd, "gradcheck", "torch.autograd.gradcheck"),
        (time, "monotonic", "time.monotonic"),
    ],
)
def test_a_function_that_is_another_one(
    owner: Any, name: str, named: str, before: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, always)
    assert named in before.changed()
    monkeypatch.undo()
    assert before.changed() == []


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (tolerance.mismatch, "trifold.verification.tolerance.mismatch"),
        (cell.Cell.invoke, "trifold.verification.cell.Cell.invoke"),
    ],
)
def test_a_function_with_other_code(
    function: Callable[..., Any], named: str, before: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(function, FunctionType)
    monkeypatch.setattr(function, "__code__", always.__code__)
    assert named in before.changed()


def test_a_function_with_other_defaults(before: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell.Cell.invoke, "__defaults__", (None,))
    assert "trifold.verification.cell.Cell.invoke" in before.changed()


def test_a_check_that_runs_something_else(before: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    check = CHECKS[0]
    run = check.run
    object.__setattr__(check, "run", always)
    try:
        assert "trifold.verification.checks.CHECKS" in before.changed()
    finally:
        object.__setattr__(check, "run", run)
    assert before.changed() == []


def test_a_constant_that_is_another_one(before: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_A_CONSTANT", 1, raising=False)
    with_it = Snapshot()
    monkeypatch.setattr(values, "_A_CONSTANT", 2)
    assert with_it.changed() == ["trifold.verification.checks.values._A_CONSTANT"]
    assert before.changed() == []


def test_a_function_that_is_gone(before: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tolerance, "mismatch")
    assert before.changed() == ["trifold.verification.tolerance.mismatch"]


def test_a_class_of_specs_with_another_method(before: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spec, "__post_init__", always)
    assert "trifold.spec.spec.Spec.__post_init__" in before.changed()
