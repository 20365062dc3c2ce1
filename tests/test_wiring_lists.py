"""Operators with lists of tensors: their gradients by every way that leads to them, and the mistakes of a backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.test_wiring import library, wired
from trifold.port import Library, Operators

__all__ = ["library"]

X, Y, Z = (torch.tensor(values) for values in ([1.0, -2.0], [3.0, 0.5], [2.0, 2.0]))


@pytest.fixture
def op(library: Library) -> Operators:
    """``weighted(xs, y, n)`` is n times the sum of the xs, times y; ``powers(x, n)`` are x, x², … up to n."""

    def register(op: Operators) -> None:
        op.define("weighted(Tensor[] xs, Tensor y, int n) -> Tensor", fake=lambda xs, y, n: torch.empty_like(y))
        op.autograd("weighted", save=lambda xs, y, n, out: (*xs, y, n), backward=backward_of_weighted)
        op.define("powers(Tensor x, int n) -> Tensor[]", fake=lambda x, n: [torch.empty_like(x) for _ in range(n)])
        op.autograd("powers", save=["x"], backward=backward_of_powers)

    def backward_of_weighted(ctx: Any, grad: Tensor) -> Any:
        *xs, y = ctx.saved_tensors
        (n,) = ctx.constants
        of_xs, of_y, _ = ctx.needs_input_grad
        assert len(of_xs) == len(xs)
        return [n * grad * y if needed else None for needed in of_xs], n * grad * sum(xs) if of_y else None, None

    def backward_of_powers(ctx: Any, grads: list[Tensor]) -> Any:
        (x,) = ctx.saved_tensors
        return sum(grad * (i + 1) * x**i for i, grad in enumerate(grads)), None

    return wired(
        library,
        register,
        weighted=lambda xs, y, n: n * sum(xs) * y,
        powers=lambda x, n: [x ** (i + 1) for i in range(n)],
    )


WAYS: dict[str, Callable[[Operators, str], Callable[..., Any]]] = {
    "public function": lambda op, name: getattr(op, name),
    "torch.ops": lambda op, name: op.overload(name),
    "compiled": lambda op, name: torch.compile(getattr(op, name), fullgraph=True, backend="aot_eager"),
}


@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_a_list(op: Operators, way: str) -> None:
    torch._dynamo.reset()
    x, y, z = X.clone().requires_grad_(), Y.clone().requires_grad_(), Z.clone()
    made = WAYS[way](op, "weighted")([x, z], y, 3)
    assert torch.equal(made, 3 * (X + Z) * Y)
    grads = torch.autograd.grad(made.sum(), [x, y])
    assert torch.equal(grads[0], 3 * Y)
    assert torch.equal(grads[1], 3 * (X + Z))
    assert not WAYS[way](op, "weighted")([z], Y, 3).requires_grad
    with torch.no_grad():
        assert not WAYS[way](op, "weighted")([x, z], y, 3).requires_grad


@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_a_list_of_results(op: Operators, way: str) -> None:
    torch._dynamo.reset()
    x = X.clone().requires_grad_()
    made = WAYS[way](op, "powers")(x, 3)
    assert isinstance(made, list)
    assert [power.tolist() for power in made] == [X.tolist(), (X**2).tolist(), (X**3).tolist()]
    (grad,) = torch.autograd.grad(made[0].sum() + made[2].sum(), x)
    assert torch.equal(grad, 1 + 3 * X**2)
    assert [power.requires_grad for power in WAYS[way](op, "powers")(X, 2)] == [False, False]
    assert WAYS[way](op, "powers")(x, 0) == []


def test_functional_transforms(op: Operators) -> None:
    of_x, of_z = torch.func.grad(lambda xs: op.weighted(xs, Y, 3).sum())([X, Z])
    assert torch.equal(of_x, 3 * Y)
    assert torch.equal(of_z, 3 * Y)
    assert torch.equal(torch.func.grad(lambda x: op.powers(x, 2)[1].sum())(X), 2 * X)
    with pytest.raises(RuntimeError, match="Batching rule not implemented"):  # torch has none for lists
        torch.func.vmap(lambda x: op.weighted([x, x], Y, 1))(torch.stack([X, Z]))


def test_gradcheck_and_opcheck_pass(op: Operators) -> None:
    x, y, z = (value.double().requires_grad_() for value in (X, Y, Z))
    assert torch.autograd.gradcheck(lambda x, y, z: op.weighted([x, z], y, 2), (x, y, z))
    assert torch.autograd.gradcheck(lambda x: tuple(op.powers(x, 3)), (x,))
    torch.library.opcheck(op.overload("weighted"), ([X, Z], Y, 2))
    torch.library.opcheck(op.overload("powers"), (X, 2))


def test_a_missing_tensor_of_a_list_and_no_list(library: Library) -> None:
    def register(op: Operators) -> None:
        op.define("f(Tensor x, Tensor?[] ys, Tensor[]? zs) -> Tensor", fake=lambda x, ys, zs: torch.empty_like(x))
        op.autograd("f", save=lambda x, ys, zs, out: (), backward=lambda ctx, grad: (grad, [None, 2 * grad], None))

    op = wired(library, register, f=lambda x, ys, zs: x + 2 * ys[1])
    y = Y.clone().requires_grad_()
    made = op.f(X, [None, y], None)
    assert torch.autograd.grad(made.sum(), y)[0].tolist() == [2, 2]


def test_a_list_beside_a_result_for_backward_alone(library: Library) -> None:
    def register(op: Operators) -> None:
        fake = lambda x: ([x + 0], torch.empty_like(x), torch.empty_like(x))  # noqa: E731
        op.define("f(Tensor x) -> (Tensor[], Tensor, Tensor)", fake=fake)
        op.autograd("f", save=["result[2]"], backward=backward, no_gradient=(0, 2))

    def backward(ctx: Any, grad: Tensor) -> Tensor:
        made: Tensor = grad * ctx.saved_tensors[0]
        return made

    op = wired(library, register, f=lambda x: ([x + 1], 5 * x, torch.full_like(x, 5)))
    x = X.clone().requires_grad_()
    assert torch.autograd.grad(op.f(x).sum(), x)[0].tolist() == [5, 5]
    (left_out,), kept, _ = op.overload("f")(x)
    assert (left_out.requires_grad, kept.requires_grad) == (False, True)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda grad: [grad], "backward of f gives 1 gradients for 2 arguments; it is a tuple of one for each"),
        (lambda grad: ([grad], None), "backward of f gives 1 gradients for argument 0, a list of 2 tensors"),
    ],
)
def test_a_backward_that_gives_too_few(library: Library, made: Callable[[Tensor], Any], message: str) -> None:
    def register(op: Operators) -> None:
        op.define("f(Tensor[] xs, int n) -> Tensor", fake=lambda xs, n: torch.empty_like(xs[0]))
        op.autograd("f", save=lambda xs, n, out: (), backward=lambda ctx, grad: made(grad))

    op = wired(library, register, f=lambda xs, n: xs[0] + xs[1])
    with pytest.raises(RuntimeError, match=message):
        op.f([X.clone().requires_grad_(), Y], 1).sum().backward()


def test_a_list_is_unpacked_before_it_is_saved(library: Library) -> None:
    def register(op: Operators) -> None:
        op.define("f(Tensor[] xs) -> Tensor", fake=lambda xs: torch.empty_like(xs[0]))
        op.autograd("f", save=lambda xs, out: (xs,), backward=lambda ctx, grad: ([grad],))

    op = wired(library, register, f=lambda xs: xs[0] + 0)
    with pytest.raises(TypeError, match=r"save gives a list of tensors.*unpack it, \*xs"):
        op.f([X.clone().requires_grad_()])


def test_a_list_has_no_name_to_save_it_by(library: Library) -> None:
    def register(op: Operators) -> None:
        op.define("f(Tensor[] xs, Tensor y) -> Tensor[]", fake=lambda xs, y: [y])
        op.autograd("f", save=["xs"], backward=lambda ctx, grads: grads)

    with pytest.raises(ValueError, match=r"it is a list of names out of y, or a function"):
        wired(library, register)


def test_arguments_by_keyword_alone_are_refused(library: Library) -> None:
    with pytest.raises(ValueError, match=r"'f\(Tensor x, \*, int k\) -> Tensor' has arguments after \*: k; a C\+\+"):
        wired(library, lambda op: op.define("f(Tensor x, *, int k) -> Tensor", fake=lambda x, k: x))


def test_what_is_no_list_is_refused_by_torch(op: Operators) -> None:
    with pytest.raises(RuntimeError, match=r"Expected a value of type 'List\[Tensor\]' for argument 'xs'"):
        op.weighted(X, Y, 1)
