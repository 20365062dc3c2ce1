"""Running a call forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trifold.spec import Call, TensorCase
from trifold.verification.cell import Cell, as_tuple

Arguments = tuple[list[Any], dict[str, Any]]


@dataclass(frozen=True)
class Forward:
    """A call made with gradients: its differentiable arguments and its results."""

    inputs: list[Tensor]
    outputs: tuple[Tensor, ...]

    def values_and_gradients(self) -> list[Tensor]:
        """The detached results, and the gradient of their sum for each input."""
        summed = [output.sum() for output in self.outputs if output.requires_grad]
        grads = torch.autograd.grad(summed, self.inputs)
        return [*(output.detach() for output in self.outputs), *grads]


def tensor_positions(call: Call) -> list[int]:
    """The positions of the floating tensors among the call's positional arguments: of those that have gradients."""
    return [position for position, value in enumerate(call.args) if isinstance(value, TensorCase)]


def require_gradients(args: list[Any], call: Call, positions: Sequence[int]) -> list[Tensor]:
    """Make the arguments at ``positions`` leaves that require a gradient, in place; an argument that is the very tensor
    of one of them stays that."""
    for position in positions:
        args[position] = args[position].detach().requires_grad_()
    args[:] = call.with_aliases(args)
    return [args[position] for position in positions]


def is_floating(value: object) -> bool:
    """Whether an argument is a tensor that has gradients."""
    return isinstance(value, Tensor) and value.is_floating_point()


def forward(cell: Cell, call: Call, function: Callable[..., Any], arguments: Arguments | None = None) -> Forward:
    """``function`` on the call's arguments (made here, unless given); all its floating tensors require a gradient."""
    args, kwargs = arguments or call.arguments(cell.device)
    inputs = require_gradients(args, call, tensor_positions(call))
    torch.manual_seed(call.seed)
    return Forward(inputs, as_tuple(function(*args, **kwargs)))


def in_dtype(call: Call, dtype: torch.dtype) -> Call:
    """The call with all its floating tensors in ``dtype``."""
    args = tuple(replace(v, dtype=dtype) if isinstance(v, TensorCase) else v for v in call.args)
    return replace(call, args=args)
