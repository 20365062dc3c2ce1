"""Drafts of launch functions with lists of tensors: compiled for the CPU, with the wiring, against plain torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.draft.lists import reference
from tests.draft.operators import drafted_operators

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def op(quick_builds: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of lists.py."""
    return drafted_operators(HERE / "lists.py", tmp_path_factory.mktemp("workspace"))


def _tensors(drawn: torch.Generator, *lengths: int) -> list[Tensor]:
    return [torch.randn(length, generator=drawn, dtype=torch.float64) for length in lengths]


def test_each_tensor_of_lists_is_written(op: Any, drawn: torch.Generator) -> None:
    given = [_tensors(drawn, 300, 0, 5) for _ in range(3)]
    for k, dtype in enumerate((torch.float64, torch.float32, torch.float16)):  # of each tensor its own
        for each in given:
            each[k] = each[k].to(dtype)
    given[1][0] = torch.randn(600, generator=drawn, dtype=torch.float64)[::2]
    expected = [[x.clone() for x in xs] for xs in given]
    reference(expected[0], expected[1], expected[2], 0.25)
    op.lists(*given, 0.25)
    for made, right in zip(given, expected, strict=True):
        for a, b in zip(made, right, strict=True):
            torch.testing.assert_close(a, b)


def test_what_a_loop_checks_is_checked_before_anything_is_written(op: Any, drawn: torch.Generator) -> None:
    params, grads, moments = (_tensors(drawn, 4, 6) for _ in range(3))
    before = params[0].clone()
    with pytest.raises(RuntimeError, match="lists: params and grads must have the same length"):
        op.lists(params, grads[:1], moments, 0.25)
    with pytest.raises(RuntimeError, match=r"lists: p .*g.*float64.*float32"):
        op.lists(params, [grads[0], grads[1].float()], moments, 0.25)
    with pytest.raises(RuntimeError, match="lists: params and moments must be contiguous"):
        op.lists(params, grads, [moments[0], torch.ones(12, dtype=torch.float64)[::2]], 0.25)
    assert torch.equal(params[0], before)


def test_numbers_of_iterations_and_continue(op: Any, drawn: torch.Generator) -> None:
    xs = [*_tensors(drawn, 300), *(x.float() for x in _tensors(drawn, 40))]
    squares = [float(x.double().square().sum()) for x in xs]
    assert op.lists_norm(xs, 0).item() == pytest.approx(squares[0] + 2 * squares[1], rel=1e-6)
    assert op.lists_norm(xs, 1).item() == pytest.approx(2 * squares[1], rel=1e-6)
    with pytest.raises(RuntimeError, match=r"xs\[1\] must be float64 or float32, but is torch\.int64"):
        op.lists_norm([xs[0], torch.arange(3)], 0)


def test_a_tensor_by_its_index_from_the_end(op: Any, drawn: torch.Generator) -> None:
    xs = [*_tensors(drawn, 3), *(x.half() for x in _tensors(drawn, 40))]
    torch.testing.assert_close(op.lists_last(xs, [torch.tensor(2.0), torch.tensor([3.0])]), 6 * xs[-1])
    torch.testing.assert_close(op.lists_last(xs[:1], []), xs[0])
    with pytest.raises((RuntimeError, IndexError)):  # torch chooses no code for a call without a tensor
        op.lists_last([], [torch.tensor(2.0)])


def test_a_loop_over_indices_writes_what_it_takes_from_a_list(op: Any, drawn: torch.Generator) -> None:
    xs = _tensors(drawn, 300, 7)
    out = [torch.empty_like(x) for x in xs]
    op.lists_indexed(xs, out, 3.0)
    for x, y in zip(xs, out, strict=True):
        torch.testing.assert_close(y, 3 * x)
    with pytest.raises(RuntimeError, match="lists_indexed: 2 xs, and 1 out"):
        op.lists_indexed(xs, out[:1], 3.0)


def test_conditions_on_all_tensors_and_their_sizes(op: Any, drawn: torch.Generator) -> None:
    for dtype in (torch.float64, torch.float16):
        xs = [torch.randn(rows, 7, generator=drawn, dtype=torch.float64).to(dtype) for rows in (5, 0, 12)]
        assert torch.equal(op.lists_cat(xs), torch.cat(xs))
    with pytest.raises(RuntimeError, match="lists_cat: xs must be matrices, at least one"):
        op.lists_cat([xs[0], xs[0].view(-1)])
    for other in (xs[0].float(), xs[0][:, :6]):
        with pytest.raises(RuntimeError, match="lists_cat: xs must have one dtype, and one number of columns"):
            op.lists_cat([xs[0], other])


def test_conditions_on_some_tensors_and_their_sizes(op: Any) -> None:
    xs = [torch.ones(4, 3), torch.ones(0), torch.ones(2, 5)]
    assert op.lists_bounds(xs).shape == (4, 22)
    with pytest.raises(RuntimeError, match="lists_bounds: xs must be float32 matrices, or empty"):
        op.lists_bounds([*xs, torch.ones(2, 2).double()])


def test_what_a_condition_leaves_out_is_not_checked(op: Any) -> None:
    xs = [torch.ones(3, 4), torch.ones(1, 0), torch.ones(2, 5)]
    assert op.lists_widest(xs, 2).shape == (9,)
    with pytest.raises(RuntimeError, match="a matrix has no column"):
        op.lists_widest(xs, 1)
