"""Autograd for calls in an op's process: first and second derivatives are computed in that process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trifold.isolation.tensors import restored
from trifold.spec.call import Path

if TYPE_CHECKING:
    from trifold.verification.remote import OpProcess

Json = Any


class Handle:
    """Keeps a call's graph alive in the op's process; the process frees it after this object is deleted."""

    def __init__(self, process: OpProcess, number: int) -> None:
        self._released, self.number = process.released, number

    def __del__(self) -> None:
        self._released.append(self.number)


@dataclass
class Answer:
    """The results of a call or of a backward pass.

    Attributes:
        tensors: the results, without nesting.
        structure: the nesting of the function's result.
        requires: for each result, whether it requires a gradient in the op's process.
        arguments: one tensor for each storage that was sent, in order.
        asked: the paths of the arguments of a call that require a gradient; empty for a backward pass.
    """

    process: OpProcess
    tensors: tuple[Any, ...]
    structure: Json
    requires: list[bool]
    _handle: Handle
    arguments: list[Tensor]
    asked: tuple[Path, ...] = ()

    @property
    def handle(self) -> int:
        return self._handle.number

    def result(self, tensors: Sequence[Any] | None = None) -> Any:
        """What the op's function returned, with ``tensors`` instead of its own if given."""
        return restored(self.tensors if tensors is None else tensors, self.structure)


class Call(torch.autograd.Function):
    """A call of the op's function with arguments that require a gradient."""

    @staticmethod
    def forward(ctx: Any, process: OpProcess, args: Any, kwargs: Any, answers: list[Answer], *inputs: Tensor) -> Any:
        answer = process.call(args, kwargs, "grad")
        answers.append(answer)
        return _leave(ctx, answer, inputs)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor | None) -> tuple[Any, ...]:
        return None, None, None, None, *_gradients(ctx, outer)


class _Backward(torch.autograd.Function):
    """A backward pass that can be differentiated."""

    @staticmethod
    def forward(ctx: Any, before: Answer, places: list[bool], *tensors: Tensor) -> Any:
        given = iter(tensors[len(tensors) - sum(places) :])
        outer = [next(given) if there else None for there in places]
        answer = before.process.vjp(before, outer, create_graph=True, keep=True)
        return _leave(ctx, answer, tensors)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor | None) -> tuple[Any, ...]:
        return None, None, *_gradients(ctx, outer)


def _leave(ctx: Any, answer: Answer, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
    ctx.set_materialize_grads(False)
    ctx.answer = answer
    ctx.save_for_backward(*inputs)
    results = answer.tensors
    ctx.mark_non_differentiable(
        *(r for r, requires in zip(results, answer.requires, strict=True) if isinstance(r, Tensor) and not requires)
    )
    return results


def _gradients(ctx: Any, outer: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """The gradients of ``ctx.answer``, from the upstream gradients of the results that require one."""
    answer: Answer = ctx.answer
    asked = [value for value, requires in zip(outer, answer.requires, strict=True) if requires]
    if torch.is_grad_enabled():
        given = [value for value in asked if value is not None]
        places = [value is not None for value in asked]
        return tuple(_Backward.apply(answer, places, *ctx.saved_tensors, *given))  # type: ignore[no-untyped-call]
    keep = torch._C._autograd._get_current_graph_task_keep_graph()
    return answer.process.vjp(answer, asked, create_graph=False, keep=keep).tensors
