"""Operators by torch's public API alone.

``torch.library.register_autograd`` states the gradient of a call from anywhere. What the public function calls also
works in torch.func's transforms, which need an ``autograd.Function`` of two steps: its forward pass is the operator
itself. A call by keyword, or without all arguments, is left to torch.library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.forward_ad import unpack_dual

from .lists import function_of_lists
from .saving import Gradient, keep, refuse_writing
from .schema import Schema, is_tensor_list

Overload = Callable[..., Any]
_is_tracing = torch.compiler.is_dynamo_compiling


def connect(
    registry: torch.library.Library, schema: Schema, overload: Overload, gradient: Gradient
) -> Callable[..., Any]:
    """Register the gradient of an operator; return what the public function calls."""
    saving, declared = gradient.saving, gradient.declared
    backward = declared.picking(gradient.backward, len(schema.arguments))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, saving.choose(*inputs, output))
        declared.declare(ctx, output)

    differentiable = _function(schema, overload, backward, setup_context)
    if not schema.written:
        name = f"{registry.ns}::{schema.name}"
        torch.library.register_autograd(name, backward, setup_context=setup_context, lib=registry)
    return _entry(schema, overload, gradient, differentiable)


def _function(
    schema: Schema, overload: Overload, backward: Callable[..., Any], setup_context: Callable[..., None]
) -> Callable[..., Any]:
    """``apply`` of an ``autograd.Function`` whose forward pass is the operator."""
    if any(map(is_tensor_list, (*(kind for kind, _ in schema.arguments), *schema.results))):
        return function_of_lists(schema.name, len(schema.results) != 1, overload, backward, setup_context)
    members = {
        "forward": staticmethod(lambda *args: overload(*args)),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "generate_vmap_rule": True,
    }
    function: Any = type(schema.name, (torch.autograd.Function,), members)
    apply: Callable[..., Any] = function.apply
    return apply


def _entry(
    schema: Schema, overload: Overload, gradient: Gradient, differentiable: Callable[..., Any]
) -> Callable[..., Any]:
    declared, arity = gradient.declared, len(schema.arguments)

    def needs_gradient(values: Iterable[Any]) -> bool:
        found = False
        for value in values:
            for one in value if isinstance(value, list | tuple) else (value,):
                if isinstance(one, torch.Tensor):
                    found = found or one.requires_grad
                    if unpack_dual(one).tangent is not None:  # torch.library would drop it
                        raise NotImplementedError(f"{schema.name} has no jvp: no forward-mode derivative is stated")
        return found and torch.is_grad_enabled()

    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_tracing() or not needs_gradient((*args, *kwargs.values())):
            return declared.pick(overload(*args, **kwargs))
        if schema.written:  # torch.library accepts no gradient for it
            refuse_writing(schema)
        whole = len(args) == arity
        return declared.pick(differentiable(*args) if whole else overload(*args, **kwargs))

    call.__name__ = call.__qualname__ = schema.name
    call.__doc__ = f"Calls {overload}: {schema.text}"
    return call
