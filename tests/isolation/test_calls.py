"""Calls of an op in its process: results, changed arguments, gradients and the generators' state."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from trifold.verification.remote import OpProcess


def test_a_result_that_is_an_argument_is_in_its_memory_here_too(process: OpProcess, x: Tensor, y: Tensor) -> None:
    result = process.function(x, y, "argument")
    assert result.data_ptr() == x.data_ptr()
    assert torch.equal(result, x)


def test_results_that_are_views_and_no_tensors(process: OpProcess, x: Tensor, y: Tensor) -> None:
    view, total, seven, word = process.function(x, y, "view")
    assert (view.data_ptr(), view.storage_offset()) == (x[1:].data_ptr(), 1)
    assert torch.equal(total, x + y)
    assert total.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert (seven, word) == (7, "seven")


def test_two_results_in_one_memory(process: OpProcess, x: Tensor, y: Tensor) -> None:
    first, second = process.function(x, y, "two views")
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert torch.equal(torch.cat([first, second]), x + y)


def test_a_result_in_the_memory_of_an_earlier_one(process: OpProcess, x: Tensor, y: Tensor) -> None:
    first = process.function(x, y, "keep")
    second = process.function(x, y, "keep")
    assert first.data_ptr() == second.data_ptr()
    assert process.function(x, y).data_ptr() != first.data_ptr()


def test_a_result_that_a_later_call_overwrites(process: OpProcess, x: Tensor, y: Tensor) -> None:
    others = [process.function(x, y), process.function(2 * x, y)]
    held = process.function(x, y, "keep")
    assert process.changed_since([*others, held]) == []
    process.function(x, y, "overwrite")
    assert torch.equal(held, x), "that call has told nothing of it"
    assert process.changed_since([*others, held]) == [2]


def test_results_in_one_memory_are_compared_each(process: OpProcess, x: Tensor, y: Tensor) -> None:
    views = process.function(x, y, "two views")
    assert process.changed_since(views) == []
    results = [process.function(x, y, "keep"), process.function(x, y, "keep")]
    assert process.changed_since(results) == []
    process.function(x, y, "overwrite")
    assert process.changed_since(results) == [0, 1]


def test_a_result_that_a_later_call_returns(process: OpProcess, x: Tensor, y: Tensor) -> None:
    made = process.function(x, y, "steal")
    assert process.function(x, y, "stolen").data_ptr() == made.data_ptr()


@pytest.mark.parametrize("what", ["steal", "steal argument"])
def test_what_is_released_is_filled_with_nan(what: str, process: OpProcess, x: Tensor, y: Tensor) -> None:
    assert not process.function(x, y, what).isnan().any()
    gc.collect()
    assert process.function(x, y, "stolen").isnan().all()


def test_an_argument_that_the_call_changes_is_changed_here(process: OpProcess, x: Tensor, y: Tensor) -> None:
    whole = torch.cat([x, x])
    part = whole[::2]
    assert process.function(part, y, "change").tolist() == (2 * torch.cat([x, x])[::2] + y).tolist()
    assert whole.tolist() == [2.0, 2.0, 6.0, 4.0, 2.0, 2.0, 6.0, 4.0]
    assert y.tolist() == [0.5, 0.25, 2.0, -1.0]


# ------------------------------------------------------------------------------------------- autograd, randomness


def test_gradients_and_second_derivatives(process: OpProcess, x: Tensor, y: Tensor) -> None:
    def cube(x: Tensor, y: Tensor) -> Tensor:
        made: Tensor = process.function(x, y, "cube")
        return made

    given = [value.double().requires_grad_() for value in (x, y)]
    outer = torch.tensor([1.0, -1.0, 2.0, 0.0], dtype=torch.float64)
    first = torch.autograd.grad(cube(*given), given, outer, create_graph=True)
    assert torch.equal(first[0], outer * 3 * given[0] ** 2 * given[1])
    assert torch.equal(first[1], outer * given[0] ** 3)
    second = torch.autograd.grad(first[0].sum(), given)
    assert torch.allclose(second[0], outer * 6 * given[0] * given[1])
    assert torch.allclose(second[1], outer * 3 * given[0] ** 2)
    assert torch.autograd.gradcheck(cube, given)
    assert torch.autograd.gradgradcheck(cube, given)


def test_a_graph_can_be_used_twice_where_it_is_kept(process: OpProcess, x: Tensor, y: Tensor) -> None:
    x.requires_grad_()
    made = process.function(x, y, "cube")
    once = torch.autograd.grad(made.sum(), x, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(made.sum(), x)[0], once)


def test_a_result_without_a_gradient_beside_one_that_has(process: OpProcess, x: Tensor, y: Tensor) -> None:
    x.requires_grad_()
    positive, same = process.function(x, y, "integers")
    assert (positive.dtype, positive.requires_grad) == (torch.bool, False)
    assert torch.autograd.grad(same.sum(), x)[0].tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("mode", "holds"),
    [(torch.enable_grad, (True, False)), (torch.no_grad, (False, False)), (torch.inference_mode, (False, True))],
)
def test_the_mode_of_autograd(
    mode: Callable[[], Any], holds: tuple[bool, bool], process: OpProcess, x: Tensor, y: Tensor
) -> None:
    with mode():
        assert process.function(x, y, "mode") == holds


def test_a_generator_is_advanced_here(process: OpProcess, x: Tensor) -> None:
    ours, theirs = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    for _ in range(2):
        assert torch.equal(process.function(x, theirs, "draw with"), torch.rand(4, generator=ours))
    assert torch.equal(ours.get_state(), theirs.get_state())


def test_the_default_generator_is_advanced_here(process: OpProcess, x: Tensor, y: Tensor) -> None:
    torch.manual_seed(3)
    expected = torch.rand(12)
    torch.manual_seed(3)
    drawn = [process.function(x, y, "draw"), torch.rand(4), process.function(x, y, "draw")]
    assert torch.equal(torch.cat(drawn), expected)
