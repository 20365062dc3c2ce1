"""Specs whose cases do not show that the op uses each of its arguments: what the row `sensitivity` says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.spec import Call, IndexCase, Limits, Spec, TensorCase
from trifold.spec.fills import Fill
from trifold.verification.calls import Search
from trifold.verification.checks.dependence import require_arguments
from trifold.verification.outcomes import CheckFailed


def _moment(fill: Fill, seed: int, rows: int = 4) -> TensorCase:
    return TensorCase((rows, 3), torch.float32, fill=fill, seed=seed)


def _judge(reference: Callable[..., Any], calls: Sequence[Call], writes: tuple[str, ...] = ()) -> None:
    spec = Spec(calls=lambda limits: st.just(calls[0]), writes=writes)
    cell = cell_here(reference, reference, spec, files="op", search=Search(2), limits=Limits(100), differentiable=False)
    cell.calls.extend(calls)
    require_arguments(cell)


def _decayed(moment: Tensor, grad: Tensor) -> Tensor:
    return (0.999 * moment + 0.001 * grad * grad).sqrt()


def test_an_argument_that_is_zero_in_each_call_is_named() -> None:
    calls = [Call((_moment("zero", seed), _moment("normal", seed + 9))) for seed in range(4)]
    with pytest.raises(CheckFailed, match="would accept an op that takes moment to be 0, though the reference depends"):
        _judge(_decayed, calls)
    positive = Call((_moment("positive", 1), _moment("normal", 2)))
    _judge(_decayed, [*calls, positive])
    _judge(_decayed, calls[:2])  # so few may be zeros by chance


def test_an_argument_that_disappears_within_the_tolerance_is_named() -> None:
    calls = [Call((_moment("normal", seed), _moment("positive", seed + 9))) for seed in range(4)]
    with pytest.raises(CheckFailed, match="takes eps to be 0"):
        _judge(lambda x, eps: x + 1e-9 * eps, calls)


def test_an_argument_whose_numbers_do_not_matter_needs_no_others() -> None:
    calls = [Call((_moment("zero", seed), _moment("normal", seed + 9))) for seed in range(4)]
    _judge(lambda shape_of, x: x.clone().view(shape_of.shape), calls)

    def written(out: Tensor, x: Tensor) -> Tensor:
        return out.copy_(2 * x)

    _judge(written, calls, ("out",))


def test_an_argument_that_the_reference_reads_before_it_writes_is_named() -> None:
    def updated(moment: Tensor, x: Tensor) -> None:
        moment.mul_(0.9).add_(x)

    calls = [Call((_moment("zero", seed), _moment("normal", seed + 9))) for seed in range(4)]
    with pytest.raises(CheckFailed, match="takes moment to be 0"):
        _judge(updated, calls, ("moment",))


def test_indices_and_lists_are_arguments_too() -> None:
    def gathered(tables: list[Tensor], index: Tensor) -> Tensor:
        return sum(table[index] for table in tables)  # type: ignore[return-value]

    def call(seed: int, fill: Fill, below: int) -> Call:
        tables = [_moment(fill, seed), _moment("zero", seed)]
        return Call((tables, IndexCase((5,), below, seed=seed)))

    _judge(gathered, [call(seed, "normal", 4) for seed in range(4)])
    with pytest.raises(CheckFailed, match="takes tables to be 0"):
        _judge(gathered, [call(seed, "zero", 4) for seed in range(4)])
