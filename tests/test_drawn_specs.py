"""Drawn specs: a right implementation passes each check that needs no kernel, and a mistake fails in its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, example, given, settings
from torch import Tensor

from tests.drawn_specs import DrawnArgument, DrawnOp, DrawnResult, drawn_ops, judge
from trifold.isolation.tensors import mapped
from trifold.verification.outcomes import CheckFailed, NotRun

Function = Callable[..., Any]
_FEW = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # an op says enough; to shrink one takes minutes
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.nested_given],  # a cell draws calls itself
)
_ROWS = ("values", "sensitivity", "repeatable", "errors", "gradients", "gradcheck", "gradcheck32", "gradgradcheck")
_OF_GRADIENTS = ("gradients", "gradcheck", "gradcheck32", "gradgradcheck")


def right(op: DrawnOp) -> Function:
    """With a gradient for what the spec says, and an error where another is asked for."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if not isinstance(args[0] if args else kwargs.get("x"), Tensor):
            raise TypeError("drawn: x must be a tensor")
        for name, value in op.given(*args, **kwargs).items():
            if op.with_gradient and name not in op.differentiated and _requires_gradient(value):
                raise RuntimeError(f"drawn: {name} has no gradient")
        given = {
            name: value if op.with_gradient and name in op.differentiated else mapped(value, Tensor.detach)
            for name, value in op.given(*args, **kwargs).items()
        }
        positional = [given[argument.name] for argument in op.arguments if not argument.keyword]
        return op.reference(*positional, **{a.name: given[a.name] for a in op.arguments if a.keyword})

    return function


def _requires_gradient(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_requires_gradient, value))
    return isinstance(value, Tensor) and value.requires_grad


_IN_A_DTYPE = DrawnOp(
    (DrawnArgument("x", "matrix"), DrawnArgument("dtype", "dtype")), (DrawnResult("floating"),), with_gradient=True
)


@given(drawn_ops())
@example(_IN_A_DTYPE)
@_FEW
def test_a_right_implementation_passes_each_row(op: DrawnOp) -> None:
    for row in _ROWS:
        if row in _OF_GRADIENTS and not op.with_gradient:
            with pytest.raises(NotRun, match="no gradient on purpose"):
                judge(op, right(op), row)
        else:
            judge(op, right(op), row)


def _in_results(change: Callable[[Tensor], Tensor]) -> Callable[[Function], Function]:
    """A mistake that changes one result."""

    def mistaken(function: Function) -> Function:
        def wrong(*args: Any, **kwargs: Any) -> Any:
            first = True

            def changed(value: Tensor) -> Tensor:
                nonlocal first
                change_it, first = first and value.numel() > 0, False
                return change(value) if change_it else value

            return mapped(function(*args, **kwargs), changed)

        return wrong

    return mistaken


def _last_is_another(value: Tensor) -> Tensor:
    flat = value.clone().flatten()
    flat[-1] = ~flat[-1] if value.dtype == torch.bool else flat[-1] + 2
    return flat.view(value.shape)


def _changes_its_argument(function: Function) -> Function:
    def wrong(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = function(x, *args, **kwargs)
        if x.numel():
            x.detach()[-1, -1] += 1
        return result

    return wrong


def _moves_on(function: Function) -> Function:
    calls = 0

    def wrong(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        result = function(*args, **kwargs)
        return _in_results(_last_is_another)(lambda: result)() if calls % 2 == 0 else result

    return wrong


def _takes_anything(function: Function) -> Function:
    def wrong(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if isinstance(args[0], Tensor) else None

    return wrong


class _Steeper(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 1.25 * grad


def _steeper(function: Function) -> Function:
    steeper: Callable[[Tensor], Tensor] = _Steeper.apply
    return lambda x, *args, **kwargs: function(steeper(x), *args, **kwargs)


def _without_gradient_of_x(function: Function) -> Function:
    def wrong(x: Any, *args: Any, **kwargs: Any) -> Any:
        x = x.detach() if isinstance(x, Tensor) else x
        return mapped(function(x, *args, **kwargs), lambda y: y.requires_grad_() if y.is_floating_point() else y)

    return wrong


MISTAKES: dict[str, tuple[str, Callable[[Function], Function]]] = {
    "the last element is another": ("values", _in_results(_last_is_another)),
    "one row for all": ("values", _in_results(lambda y: y[:1].expand(y.shape).contiguous())),
    "a result in another type": (
        "values",
        _in_results(lambda y: y.to(torch.int32 if y.dtype != torch.int32 else torch.int64)),
    ),
    "one dimension more": ("values", _in_results(lambda y: y.unsqueeze(0))),
    "an argument is changed": ("values", _changes_its_argument),
    "each second call differs": ("values", _moves_on),
    "a bad call passes": ("errors", _takes_anything),
    "a gradient is 1.25 times as large": ("gradients", _steeper),
    "a gradient is missing": ("gradients", _without_gradient_of_x),
}


@pytest.mark.parametrize("name", MISTAKES)
@given(op=drawn_ops())
@settings(_FEW, max_examples=4)
def test_a_mistake_fails_its_row(name: str, op: DrawnOp) -> None:
    row, mistaken = MISTAKES[name]
    if row in _OF_GRADIENTS and not op.with_gradient:
        return
    with pytest.raises(CheckFailed):
        judge(op, mistaken(right(op)), row)


def test_all_kinds_are_drawn() -> None:
    """Of arguments and of results, with and without gradient."""
    seen: set[object] = set()

    @given(drawn_ops())
    @settings(_FEW, max_examples=120)
    def collect(op: DrawnOp) -> None:
        seen.update({argument.kind for argument in op.arguments} | {result.kind for result in op.results})
        seen.add(op.with_gradient)

    collect()
    kinds = {"table", "row", "index", "mask", "list", "number", "dtype", "absent", "nothing", "complex"}
    assert kinds | {True, False} <= seen
