"""The gradient of an operator as functions of autograd: for the port's own calls, the dispatcher, and torch.func."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .lists import function_of_lists
from .schema import Schema, is_tensor_list
from .written import listed, parameters, written

Call = Callable[..., Any]
Overload = torch._ops.OpOverload[..., Any]

below_autograd = torch._C._AutoDispatchBelowAutograd


@dataclass(frozen=True)
class Formula:
    """The gradient of one operator.

    Attributes:
        apply: computes and saves in one step, which is the fastest; returns the outputs for the caller.
        complete: the same with all outputs, as the dispatcher requires.
        transformable: as ``complete``, for torch.func, which needs the two steps separately.
        compute: the operator below autograd.
        picked: the part of ``_output`` that a caller receives, as an expression.
    """

    apply: Call
    complete: Call
    transformable: Call
    compute: Call
    picked: str


@dataclass(frozen=True)
class Saving:
    """What backward needs.

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
        """Raises ``ValueError`` where ``names`` is not what can be named."""
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
    """What an operator states about the gradients of its outputs.

    Attributes:
        outputs: how many it has.
        materialize_grads, no_gradient: as in ``Operators.autograd``.
    """

    outputs: int
    materialize_grads: bool = True
    no_gradient: tuple[int, ...] = ()

    @functools.cached_property
    def left(self) -> tuple[int, ...]:
        return tuple(i for i in range(self.outputs) if i not in self.no_gradient)

    @property
    def picked(self) -> str:
        """What of ``_output`` a caller is to have, as text."""
        one_by_one = [f"_output[{i}]" for i in self.left]
        return "_output" if not self.no_gradient else listed(one_by_one)

    def pick(self, outputs: Any) -> Any:
        """What of all outputs a caller is to have."""
        if not self.no_gradient:
            return outputs
        return outputs[self.left[0]] if len(self.left) == 1 else tuple(outputs[i] for i in self.left)

    def declare(self, ctx: Any, outputs: Any) -> None:
        # Of an only one that has a gradient, backward is given it; zeros for the others would be for nothing.
        if not self.materialize_grads or (self.no_gradient and len(self.left) == 1):
            ctx.set_materialize_grads(False)
        if self.no_gradient:
            marked = (outputs[i] for i in self.no_gradient)
            ctx.mark_non_differentiable(
                *(tensor for output in marked for tensor in (output if isinstance(output, list) else (output,)))
            )

    def after(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """``forward`` of an ``autograd.Function``, which gives all outputs, with this declared in its end."""
        if self.materialize_grads and not self.no_gradient:
            return forward

        def declaring(ctx: Any, *args: Any) -> Any:
            outputs = forward(ctx, *args)
            self.declare(ctx, outputs)
            return outputs

        return declaring

    def picking(self, backward: Callable[..., Any], arity: int) -> Callable[..., Any]:
        """``backward`` of one that gives all outputs: it takes the gradients of those that have one."""
        if not self.no_gradient:
            return backward
        left = self.left

        def picking(ctx: Any, *grads: Any) -> Any:
            if len(left) == 1 and grads[left[0]] is None:
                return (None,) * arity
            return backward(ctx, *(grads[i] for i in left))

        return picking


def formula_of(schema: Schema, overload: Overload, saving: Saving, backward: Call, declared: Declared) -> Formula:
    run, arguments = below(overload), parameters([name for _, name in schema.arguments])

    def compute(*args: Any) -> Any:
        guard = below_autograd()
        try:
            return run(*args)
        finally:
            del guard

    def forward(title: str, picked: str) -> Call:
        return _forward(f"{overload}: {title}", run, arguments, saving, declared.outputs, picked)

    def setup_context(ctx: Any, args: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, saving.choose(*args, output))
        declared.declare(ctx, output)

    def function(backward: Call, **members: Any) -> type[torch.autograd.Function]:
        members = {member: staticmethod(function) for member, function in members.items()}
        return type(schema.name, (torch.autograd.Function,), {"backward": staticmethod(backward), **members})

    of_all, forward_of_all = declared.picking(backward, len(arguments)), declared.after(forward("forward", "_output"))
    if any(map(is_tensor_list, (*(kind for kind, _ in schema.arguments), *schema.results))):
        several = declared.outputs != 1
        apply = function_of_lists(schema.name, several, forward_of_all, of_all)
        with_steps = function_of_lists(schema.name, several, compute, of_all, setup_context)
        return Formula(lambda *args: declared.pick(apply(*args)), apply, with_steps, compute, declared.picked)
    complete = function(of_all, forward=forward_of_all)
    fast = complete
    if declared.no_gradient:
        of_picked = replace(declared, no_gradient=())
        fast = function(backward, forward=of_picked.after(forward("forward of a call", declared.picked)))
    # What the engine calls: otherwise a method of torch's in Python that looks for `backward` and calls it.
    fast._backward_cls.apply = backward  # type: ignore[attr-defined]
    transformable = function(of_all, forward=compute, setup_context=setup_context)
    transformable.generate_vmap_rule = True
    # Function.apply of Python first unwraps dead functorch wrappers; without a transform there are none.
    directly: Call = super(torch.autograd.Function, fast).apply  # type: ignore[misc]
    return Formula(directly, complete.apply, transformable.apply, compute, declared.picked)


def _forward(title: str, run: Call, values: list[str], saving: Saving, outputs: int, picked: str) -> Callable[..., Any]:
    """``forward`` of an ``autograd.Function`` that computes and saves in one step."""
    given, kept = ", ".join(values), "pass"
    if saving.positions is None:
        kept = f"_keep(_ctx, _choose({given}, _output))"
    elif saving.positions:
        values = [*values, *(["_output"] if outputs == 1 else [f"_output[{i}]" for i in range(outputs)])]
        kept = f"_ctx.save_for_backward({', '.join(values[i] for i in saving.positions)})"
    text = f"""\
def forward(_ctx, {given}):
    _guard = _below_autograd()
    try:
        _output = _run({given})
    finally:
        del _guard
    {kept}
    return {picked}
"""
    return written(text, title, _run=run, _keep=_keep, _choose=saving.choose, _below_autograd=below_autograd)


def below(overload: Overload) -> Call:
    """``overload`` below autograd: what it calls in the end, without the search for ``__torch_function__``."""
    schema = overload._schema
    handle = torch._C._dispatch_find_schema_or_throw(schema.name, schema.overload_name)
    return functools.partial(torch._C._dispatch_call_boxed, handle)


def _keep(ctx: Any, saved: tuple[Any, ...]) -> None:
    for value in saved:
        if type(value) is not Tensor:
            break
    else:
        ctx.save_for_backward(*saved)
        return
    tensors: list[Tensor | None] = []
    constants: list[Any] = []
    for value in saved:  # once: it is a call's host time
        if isinstance(value, list | tuple) and any(isinstance(one, Tensor) for one in value):
            raise TypeError("save gives a list of tensors, which backward would see without autograd: unpack it, *xs")
        (tensors if value is None or isinstance(value, Tensor) else constants).append(value)
    if constants:
        ctx.constants = tuple(constants)
    ctx.save_for_backward(*tensors)


def undifferentiable(schema: Schema, overload: Overload) -> Formula:
    name = schema.name

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"{name} has no gradient: ports/*.py states no op.autograd('{name}', ...) for it")

    def refuse(*args: Any) -> Any:
        raise RuntimeError(f"{name} writes over an argument and has no gradient; call it under torch.no_grad()")

    formula = formula_of(schema, overload, Saving(lambda *_: (), ()), backward, Declared(len(schema.results)))
    if not schema.written:
        return formula
    return replace(formula, apply=refuse, complete=refuse, transformable=refuse)
