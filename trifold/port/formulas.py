"""The gradient of an operator as functions of autograd: for the port's own calls, the dispatcher, and torch.func.

For operators that opt in to torch's internals (``direct.py``); for the others torch.library makes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from .lists import function_of_lists
from .saving import Gradient, Saving, keep, refuse_writing
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


def formula_of(schema: Schema, overload: Overload, gradient: Gradient) -> Formula:
    """``gradient`` as functions; those of an operator that overwrites an argument raise."""
    formula = _formula(schema, overload, gradient)
    if not schema.written:
        return formula

    def refuse(*args: Any) -> Any:
        refuse_writing(schema)

    return replace(formula, apply=refuse, complete=refuse, transformable=refuse)


def _formula(schema: Schema, overload: Overload, gradient: Gradient) -> Formula:
    saving, backward, declared = gradient.saving, gradient.backward, gradient.declared
    picked = "_output" if not declared.no_gradient else listed([f"_output[{i}]" for i in declared.left])
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
        keep(ctx, saving.choose(*args, output))
        declared.declare(ctx, output)

    def function(backward: Call, **members: Any) -> type[torch.autograd.Function]:
        members = {member: staticmethod(function) for member, function in members.items()}
        return type(schema.name, (torch.autograd.Function,), {"backward": staticmethod(backward), **members})

    of_all, forward_of_all = declared.picking(backward, len(arguments)), declared.after(forward("forward", "_output"))
    if any(map(is_tensor_list, (*(kind for kind, _ in schema.arguments), *schema.results))):
        several = declared.outputs != 1
        apply = function_of_lists(schema.name, several, forward_of_all, of_all)
        with_steps = function_of_lists(schema.name, several, compute, of_all, setup_context)
        return Formula(lambda *args: declared.pick(apply(*args)), apply, with_steps, compute, picked)
    complete = function(of_all, forward=forward_of_all)
    fast = complete
    if declared.no_gradient:
        of_picked = replace(declared, no_gradient=())
        fast = function(backward, forward=of_picked.after(forward("forward of a call", picked)))
    # Called by the engine: the default is a Python method of torch's that looks for `backward` and calls it.
    fast._backward_cls.apply = backward  # type: ignore[attr-defined]
    transformable = function(of_all, forward=compute, setup_context=setup_context)
    transformable.generate_vmap_rule = True
    # Function.apply of Python first unwraps dead functorch wrappers; without a transform there are none.
    directly: Call = super(torch.autograd.Function, fast).apply  # type: ignore[misc]
    return Formula(directly, complete.apply, transformable.apply, compute, picked)


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
    return written(text, title, _run=run, _keep=keep, _choose=saving.choose, _below_autograd=below_autograd)


def below(overload: Overload) -> Call:
    """``overload`` below autograd: the function it calls in the end, without the search for ``__torch_function__``."""
    schema = overload._schema
    handle = torch._C._dispatch_find_schema_or_throw(schema.name, schema.overload_name)
    return functools.partial(torch._C._dispatch_call_boxed, handle)
