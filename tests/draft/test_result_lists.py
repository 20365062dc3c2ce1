"""Drafts of launch functions that return lists of tensors: compiled for the CPU, with the wiring, against torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.draft.operators import drafted_operators

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def op(quick_builds: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of result_lists.py."""
    return drafted_operators(HERE / "result_lists.py", tmp_path_factory.mktemp("workspace"))


@pytest.fixture
def xs(drawn: torch.Generator) -> list[Tensor]:
    return [torch.randn(shape, generator=drawn) for shape in ((3, 4), (), (300,), (0, 2))]


def _equal(results: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert isinstance(results, list)
    assert [x.tolist() for x in results] == [x.tolist() for x in expected]


def test_a_result_is_added_for_each_argument(op: Any, xs: list[Tensor]) -> None:
    for given in (xs, [x.double() for x in xs]):
        _equal(op.result_lists(given, 3.0), [3 * x for x in given])
    _equal(op.result_lists_pairs(xs, 3.0), [3 * x for x in xs])


def test_a_comprehension_leaves_some_out(op: Any, xs: list[Tensor]) -> None:
    _equal(op.result_lists_some(xs, 3.0), [3 * x for x in xs if x.numel() > 1])


@pytest.mark.parametrize("parts", [1, 3])
def test_an_argument_says_how_many(op: Any, drawn: torch.Generator, parts: int) -> None:
    x = torch.randn(5, 6, generator=drawn)
    _equal(op.result_lists_parts(x, parts), x.chunk(parts, 1))
    _equal(op.result_lists_two(x), [2 * x, x / 2])


def test_the_fakes_make_as_many_of_the_same_shapes(op: Any, xs: list[Tensor]) -> None:
    with FakeTensorMode() as mode:
        given = [mode.from_tensor(x) for x in xs]
        made = op.result_lists(given, 1.0), op.result_lists_pairs(given, 1.0), op.result_lists_some(given, 1.0)
        assert [[tuple(x.shape) for x in each] for each in made] == [
            *2 * [[(3, 4), (), (300,), (0, 2)]],
            [(3, 4), (300,)],
        ]
        assert [x.shape for x in op.result_lists_parts(mode.from_tensor(torch.ones(5, 6)), 3)] == 3 * [(5, 2)]
