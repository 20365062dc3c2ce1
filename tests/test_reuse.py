"""A backward pass writes over what forward kept where nobody will read it again, and nowhere else."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from trifold.port import Library, Operators, wire
from trifold.port.reuse import is_last_use, saves_without_hooks
from trifold.port.wiring import bind

_numbers = itertools.count()


@pytest.fixture
def op() -> Iterator[Operators]:
    """``square(x) -> (x², 2x)``, which keeps 2x for backward, and multiplies that by the gradient."""
    namespace = f"trifold_test_reuse_{next(_numbers)}"
    registry = torch.library.Library(namespace, "DEF")

    def register(op: Operators) -> None:
        op.define("square(Tensor x) -> (Tensor, Tensor)", fake=lambda x: (torch.empty_like(x), torch.empty_like(x)))
        op.define("scaled(Tensor grad, Tensor slope) -> Tensor", fake=lambda grad, slope: torch.empty_like(slope))
        op.define("scale_(Tensor grad, Tensor(a!) slope) -> ()", fake=lambda grad, slope: None)
        op.autograd(
            "square",
            save=lambda x, results: (results[1], saves_without_hooks()),
            backward=backward,
            materialize_grads=False,
        )

    def backward(ctx, grad, of_slope):  # type: ignore[no-untyped-def]
        (slope,) = ctx.saved_tensors
        assert of_slope is None
        if not (ctx.constants[0] and is_last_use(slope, grad)):
            return op.scaled(grad, slope)
        op.scale_(grad, slope)
        return slope.detach()

    bind(namespace, Library(namespace, registry))
    op = wire(namespace, register, direct=True)
    registry.impl("square", lambda x: (x * x, 2 * x), "CPU")
    registry.impl("scaled", lambda grad, slope: grad * slope, "CPU")
    registry.impl("scale_", _scale, "CPU")
    yield op
    registry._destroy()


def _scale(grad: Tensor, slope: Tensor) -> None:
    slope.mul_(grad)


def _numbers_of(count: int = 3) -> Tensor:
    return torch.arange(1.0, count + 1).requires_grad_()


def _loss(op: Operators, x: Tensor, seen: list[int]) -> Tensor:
    """Σ x², whose kept slope lies at seen[0]."""
    square, slope = op.square(x)
    seen.append(slope.data_ptr())
    loss: Tensor = square.sum()
    return loss


def test_a_backward_pass_that_is_the_last_one_returns_the_memory_that_was_kept(op: Operators) -> None:
    x, seen = _numbers_of(), list[int]()
    (grad,) = torch.autograd.grad(3 * _loss(op, x, seen), x)
    assert torch.equal(grad, 6 * x)
    assert grad.data_ptr() == seen[0]


def test_accumulation_into_a_leaf_takes_that_memory_too(op: Operators) -> None:
    x, seen = _numbers_of(), list[int]()
    _loss(op, x, seen).backward()
    assert x.grad is not None and x.grad.data_ptr() == seen[0]
    _loss(op, x, seen).backward()
    assert torch.equal(x.grad, 4 * x)


def test_a_graph_that_is_retained_keeps_what_it_has(op: Operators) -> None:
    x, seen = _numbers_of(), list[int]()
    loss = 3 * _loss(op, x, seen)
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    (second,) = torch.autograd.grad(loss, x)
    assert torch.equal(first, 6 * x) and torch.equal(second, 6 * x)
    assert first.data_ptr() != seen[0] and second.data_ptr() == seen[0]


def test_what_the_caller_holds_is_not_overwritten(op: Operators) -> None:
    x = _numbers_of()
    square, slope = op.square(x)
    (grad,) = torch.autograd.grad(3 * square.sum(), x)
    assert torch.equal(grad, 6 * x) and torch.equal(slope, 2 * x)


def test_what_a_hook_on_saved_tensors_holds_is_not_overwritten(op: Operators) -> None:
    x, held = _numbers_of(), list[Tensor]()

    def pack(saved: Tensor) -> Tensor:
        held.append(saved)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        loss = 3 * op.square(x)[0].sum()
    (grad,) = torch.autograd.grad(loss, x)
    assert torch.equal(grad, 6 * x)
    assert any(torch.equal(each, 2 * x) for each in held)


def _batched(loss: Tensor, x: Tensor, weights: Tensor) -> Tensor:
    return torch.autograd.grad(loss, x, weights, is_grads_batched=True)[0]


def _mapped(loss: Tensor, x: Tensor, weights: Tensor) -> Tensor:
    result: Tensor = torch.vmap(lambda weight: torch.autograd.grad(loss, x, weight)[0])(weights)
    return result


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("gradients", [_batched, _mapped])
def test_each_of_a_batch_of_gradients_reads_it(
    op: Operators, gradients: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> None:
    x = _numbers_of()
    assert torch.equal(gradients(op.square(x)[0], x, torch.eye(3)), torch.diag(2 * x))


def test_a_graph_of_the_gradients_is_made_of_the_operator_that_writes_anew(op: Operators) -> None:
    x = _numbers_of()
    (grad,) = torch.autograd.grad(op.square(x)[0].sum(), x, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="scaled has no gradient"):
        torch.autograd.grad(grad.sum(), x)


def test_an_output_without_a_gradient_is_the_callers_own(op: Operators) -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            slope = 2 * x
            ctx.mark_non_differentiable(slope)
            ctx.save_for_backward(slope)
            return x * x, slope

        @staticmethod
        def backward(ctx, grad, _):  # type: ignore[no-untyped-def]
            (slope,) = ctx.saved_tensors
            assert not is_last_use(slope, grad)
            return grad * slope

    x = _numbers_of()
    square, _ = Square.apply(x)  # type: ignore[no-untyped-call]
    assert torch.equal(torch.autograd.grad(square.sum(), x)[0], 2 * x)


def test_an_operator_that_writes_over_an_argument_refuses_gradients(op: Operators) -> None:
    slope = torch.ones(3)
    op.scale_(torch.full((3,), 2.0), slope)
    assert torch.equal(slope, torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match=r"scale_ writes over an argument.*no_grad"):
        op.scale_(torch.ones(3, requires_grad=True), slope)


def test_nothing_is_a_last_use_outside_of_a_backward_pass() -> None:
    with torch.no_grad():
        assert not is_last_use(torch.ones(3), torch.ones(()))


@pytest.mark.parametrize("direct", [False, True])
def test_torch_counts_what_an_operator_writes(direct: bool) -> None:
    """A gradient that needs the old numbers raises, as after torch's own in-place operators."""
    namespace = f"trifold_test_reuse_{next(_numbers)}"
    registry = torch.library.Library(namespace, "DEF")
    bind(namespace, Library(namespace, registry))

    def register(op: Operators) -> None:
        op.define("fill(Tensor(a!) to, Tensor(b!)[] others, float value) -> ()", fake=lambda to, others, value: None)

    def fill(to: Tensor, others: list[Tensor], value: float) -> None:
        for tensor in (to, *others):
            tensor.numpy()[...] = value  # as a kernel writes: unknown to torch

    op = wire(namespace, register, direct=direct)
    registry.impl("fill", fill, "CPU")
    x, table, other = _numbers_of(), torch.ones(3), torch.ones(2)
    product = x * table
    op.fill(table, others=[other], value=2.0)
    assert (table._version, other._version) == (1, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():  # its tensors have no count
        op.fill(torch.ones(3), [], 2.0)
    registry._destroy()
