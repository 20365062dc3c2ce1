"""Ops under ``torch.vmap``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import trifold
from tests.drawn_specs import cell_here
from trifold.port import may_need_gradient
from trifold.spec.load import load_spec
from trifold.verification.checks.contract import others
from trifold.verification.checks.mapping import same_when_mapped
from trifold.workspace import Workspace

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")

GALLERY = Workspace.at(Path(__file__).parents[1])


def _errors(op: str, function: Callable[..., Any]) -> list[str]:
    """What vmap raises for small calls of an op; raises ``CheckFailed`` if a result or gradient is wrong."""
    spec = load_spec(GALLERY.op(op))
    cell = cell_here(function, function, spec, files=GALLERY.op(op), differentiable=bool(spec.smooth))
    calls = [*spec.smooth, *(call for call in cell.small_calls() if call not in spec.smooth)][:6]
    assert calls
    return [error for call in calls for error in same_when_mapped(cell, call, next(others(call)))]


@pytest.mark.parametrize("op", [op for op in GALLERY.ops() if op != "normal_sample"])  # vmap refuses random numbers
def test_each_op_of_the_gallery_takes_batches(op: str) -> None:
    assert _errors(op, trifold.load(op)) == []


def test_an_error_is_permitted() -> None:
    sigmoid = trifold.load("sigmoid")

    def looks_at_numbers(x: Tensor) -> Tensor:
        result: Tensor = sigmoid(x) if x.sum().item() < 1e9 else x
        return result

    assert all("item()" in error for error in _errors("sigmoid", looks_at_numbers))


def test_within_vmap_any_gradient_may_be_needed() -> None:
    x = torch.zeros(2, 3)
    assert not may_need_gradient(x) and may_need_gradient(x.clone().requires_grad_())
    seen: list[bool] = []

    def look(row: Tensor) -> Tensor:
        seen.append(may_need_gradient(row))
        return row

    torch.vmap(look)(x)
    assert seen == [True]
