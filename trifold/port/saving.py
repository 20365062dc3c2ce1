"""An operator's statements about its gradient: the values that backward needs, and the outputs that have a gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .schema import Schema, is_tensor_list


@dataclass(frozen=True)
class Saving:
    """The values that backward needs.

    Attributes:
        choose: a function of the arguments followed by the output that returns what is saved.
        positions: of tensors, or None, among the arguments and then the output or outputs, where that is all; the
            fastest to save.
    """

    choose: Callable[..., tuple[Any, ...]]
    positions: tuple[int, ...] | None = None

    @classmethod
    def by_function(cls, choose: Callable[..., tuple[Any, ...]]) -> Saving:
        return cls(choose)

    @classmethod
    def by_names(cls, schema: Schema, names: Sequence[str]) -> Saving:
        """Raises ``ValueError`` if ``names`` contains something that cannot be saved by name."""
        arity, outputs = len(schema.arguments), len(schema.results)
        tensors = {schema.arguments[i][1]: i for i in schema.tensor_positions}
        for i, kind in enumerate(schema.results):
            if not is_tensor_list(kind):
                tensors["result" if outputs == 1 else f"result[{i}]"] = arity + i
        unknown = [name for name in names if name not in tensors]
        if isinstance(names, str) or unknown:
            raise ValueError(
                f"autograd('{schema.name}', save={names!r}): it is a list of names out of {', '.join(tensors)}, or a "
                "function that returns what to save"
            )
        positions, several = tuple(tensors[name] for name in names), outputs > 1

        def choose(*values: Any) -> tuple[Any, ...]:
            values = (*values[:-1], *values[-1]) if several else values
            return tuple(values[i] for i in positions)

        return cls(choose, positions)


@dataclass(frozen=True)
class Declared:
    """An operator's statements about the gradients of its outputs.

    Attributes:
        outputs: their number.
        materialize_grads, no_gradient: as in ``Operators.autograd``.
    """

    outputs: int
    materialize_grads: bool = True
    no_gradient: tuple[int, ...] = ()

    @functools.cached_property
    def left(self) -> tuple[int, ...]:
        return tuple(i for i in range(self.outputs) if i not in self.no_gradient)

    def pick(self, outputs: Any) -> Any:
        """The part of all outputs that a caller receives."""
        if not self.no_gradient:
            return outputs
        return outputs[self.left[0]] if len(self.left) == 1 else tuple(outputs[i] for i in self.left)

    def declare(self, ctx: Any, outputs: Any) -> None:
        # A single output with a gradient: backward receives its gradient; zeros for the others would be unused.
        if not self.materialize_grads or (self.no_gradient and len(self.left) == 1):
            ctx.set_materialize_grads(False)
        if self.no_gradient:
            marked = (outputs[i] for i in self.no_gradient)
            ctx.mark_non_differentiable(
                *(tensor for output in marked for tensor in (output if isinstance(output, list) else (output,)))
            )

    def after(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """``forward`` of an ``autograd.Function``, which returns all outputs, with this declared at its end."""
        if self.materialize_grads and not self.no_gradient:
            return forward

        def declaring(ctx: Any, *args: Any) -> Any:
            outputs = forward(ctx, *args)
            self.declare(ctx, outputs)
            return outputs

        return declaring

    def picking(self, backward: Callable[..., Any], arity: int) -> Callable[..., Any]:
        """``backward`` for one that returns all outputs: it receives the gradients of those that have one."""
        if not self.no_gradient:
            return backward
        left = self.left

        def picking(ctx: Any, *grads: Any) -> Any:
            if len(left) == 1 and grads[left[0]] is None:
                return (None,) * arity
            return backward(ctx, *(grads[i] for i in left))

        return picking


@dataclass(frozen=True)
class Gradient:
    """The gradient of one operator, as ``Operators.autograd`` states it.

    Attributes:
        saving: what backward needs.
        backward: a function of ``ctx`` and the gradients of the outputs that have one.
        declared: which outputs these are.
    """

    saving: Saving
    backward: Callable[..., Any]
    declared: Declared


def without_gradient(schema: Schema) -> Gradient:
    """For an operator without a stated gradient: requesting it is an error."""
    name = schema.name

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"{name} has no gradient: ports/*.py states no op.autograd('{name}', ...) for it")

    return Gradient(Saving(lambda *_: (), ()), backward, Declared(len(schema.results)))


def refuse_writing(schema: Schema) -> None:
    """Raises ``RuntimeError``: a gradient was requested of an operator that overwrites an argument."""
    raise RuntimeError(f"{schema.name} writes over an argument and has no gradient; call it under torch.no_grad()")


def counting_writes(call: Callable[..., Any], schema: Schema) -> Callable[..., Any]:
    """``call``, which writes into arguments, such that torch counts each write as an in-place change.

    A kernel writes to memory, and torch would not know: a gradient that needs the old numbers would silently be wrong,
    instead of raising an error.
    """
    written = [(position, schema.arguments[position][1]) for position in schema.written]

    @functools.wraps(call)
    def counted(*args: Any, **kwargs: Any) -> Any:
        results = call(*args, **kwargs)
        if torch.compiler.is_dynamo_compiling():  # what is compiled returns the new numbers, and copies them
            return results
        for position, name in written:
            value = args[position] if position < len(args) else kwargs.get(name)
            for one in value if isinstance(value, list | tuple) else (value,):
                if isinstance(one, Tensor) and not one.is_inference():
                    torch.autograd.graph.increment_version(one)
        return results

    return counted


def keep(ctx: Any, saved: tuple[Any, ...]) -> None:
    """Keep ``saved`` for backward: its tensors as ``ctx.saved_tensors``, the rest, if any, as ``ctx.constants``."""
    for value in saved:
        if type(value) is not Tensor:
            break
    else:
        ctx.save_for_backward(*saved)
        return
    tensors: list[Tensor | None] = []
    constants: list[Any] = []
    for value in saved:  # once, since each access costs host time
        if isinstance(value, list | tuple) and any(isinstance(one, Tensor) for one in value):
            raise TypeError("save gives a list of tensors, which backward would see without autograd: unpack it, *xs")
        (tensors if value is None or isinstance(value, Tensor) else constants).append(value)
    if constants:
        ctx.constants = tuple(constants)
    ctx.save_for_backward(*tensors)
