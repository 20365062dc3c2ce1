"""Operators whose calls take less host time, by torch's internals: ``wire(..., direct=True)``.

The usual wiring (``public.py``) is torch's public API alone, whose Python kernel for autograd runs on every call, even
if no gradient is requested. Here a call checks ``requires_grad`` first and bypasses autograd if it can, and one that
needs a gradient enters the ``autograd.Function`` directly. Calls from elsewhere (``torch.ops``, a compiled graph) reach
the same function through the dispatcher's Autograd key. The price: names in ``torch._C`` may change with any version of
torch, so that a wheel with such an op is for the versions that trifold was tested with.

Host time of a call on machines with an H200, torch 2.11, 2^10 float32: the port's over that of torch's own op, lowest
and highest of three machines (``trifold bench add mul sigmoid --only host``; torch's own take 5 to 10 µs without grad
and 52 to 113 µs forward and backward, by machine):

    ==================  ===========  ===========  ===========
                        add          mul          sigmoid
    no grad             1.10 - 1.21  1.14 - 1.27  1.10 - 1.31
    forward, with grad  1.55 - 1.68  1.61 - 1.77  1.51 - 1.81
    forward, backward   1.17 - 1.23  1.16 - 1.23  1.25 - 1.32
    ==================  ===========  ===========  ===========

Used for it (µs per call on a CPU machine, where the port's sigmoid takes 1.7 without grad and 16.4 forward and
backward):

- The dispatcher called directly (``_dispatch_call_boxed``) instead of ``OpOverload.__call__``, 0.25: tensors with
  ``__torch_function__`` and modes have already been handled, and nothing else happens between the two.
- ``backward`` as the ``apply`` of the class of ``ctx``, which the engine calls, instead of torch's Python method that
  looks it up: 0.5, and 1 to 2 on the machines with an H200.
- The guard as an object that is deleted instead of a ``with`` statement, 0.15; ``ctx.constants`` only if there are
  any, 0.08.
- Functions whose text is written for the operator's own arguments (``written.py``): 0.4 of layer_norm's forward, which
  took 7.8. One tensor saved for backward instead of two: 0.7 of 8.5, and 1 of all.

Tried and rejected:

- ``OperatorHandle.redispatch_boxed`` with the backend's key alone: 0.07 less, but it bypasses modes, tensor
  subclasses, and the negative and conjugate bits.
- Forward and backward written out for sigmoid, without ``save`` and without checks in backward: ratio 1.20 - 1.22. The
  checks make the same function correct under torch.compile, torch.func and forward mode.
- An ``autograd.Function`` around torch's own sigmoid and its backward has a ratio of 1.22 - 1.25 for forward and
  backward: the most that could be gained in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad as _forward_ad

from .formulas import Formula, Overload, below, below_autograd, formula_of
from .saving import Gradient
from .schema import Schema
from .written import parameters, written

_is_grad_enabled = torch.is_grad_enabled


def connect(
    registry: torch.library.Library, schema: Schema, overload: Overload, gradient: Gradient
) -> Callable[..., Any]:
    """Register the gradient of an operator; return what the public function calls."""
    formula = formula_of(schema, overload, gradient)
    registry.impl(schema.name, _autograd_kernel(schema, formula), "Autograd")
    return _entry(schema, overload, formula)


def _autograd_kernel(schema: Schema, formula: Formula) -> Callable[..., Any]:
    """The kernel that the dispatcher calls for the Autograd key."""
    tensors, lists = schema.tensor_positions, schema.list_positions

    def kernel(*args: Any) -> Any:
        if _forward_ad._current_level >= 0:
            return formula.complete(*args)  # it has no jvp: a tangent is an error, not dropped
        if _is_grad_enabled() and any(args[i] is not None and args[i].requires_grad for i in tensors):
            return formula.complete(*args)
        if lists and _is_grad_enabled() and any(_one_requires_grad(args[i]) for i in lists):
            return formula.complete(*args)
        return formula.compute(*args)

    return kernel


def _each(tensors: Any) -> Sequence[Any]:
    """The tensors of a list; what is not a list is refused later by the dispatcher."""
    return tensors if isinstance(tensors, list | tuple) else ()


def _one_requires_grad(tensors: Any) -> bool:
    return any(getattr(tensor, "requires_grad", False) for tensor in _each(tensors))


def _entry(schema: Schema, overload: Overload, formula: Formula) -> Callable[..., Any]:
    """The operator as the public function calls it, with as little overhead as is correct."""
    names = parameters([name for _, name in schema.arguments])
    given = ", ".join(names)
    lists = schema.list_positions
    overriding = ", ".join(f"*_each({name})" if i in lists else name for i, name in enumerate(names))
    asked = " or ".join(
        [f"getattr({names[i]}, 'requires_grad', False)" for i in schema.tensor_positions]
        + [f"_one_requires_grad({names[i]})" for i in lists]
    )
    text = f"""\
def call({given}):
    if _is_tracing() or _has_torch_function({overriding}):
        _output = _overload({given})
    elif _functorch_is_active() or _forward_ad._current_level >= 0:
        _output = _transformable({given})
    elif _is_grad_enabled() and ({asked or False}):
        return _apply({given})
    else:
        _guard = _below_autograd()
        try:
            _output = _run({given})
        finally:
            del _guard
    return {formula.picked}
"""
    call = written(
        text,
        f"{overload}: call",
        _is_tracing=torch.compiler.is_dynamo_compiling,
        _has_torch_function=torch.overrides.has_torch_function_variadic,
        _overload=overload,
        _functorch_is_active=torch._C._are_functorch_transforms_active,
        _forward_ad=_forward_ad,
        _transformable=formula.transformable,
        _is_grad_enabled=_is_grad_enabled,
        _each=_each,
        _one_requires_grad=_one_requires_grad,
        _apply=formula.apply,
        _below_autograd=below_autograd,
        _run=below(overload),
    )
    arguments = overload._schema.arguments
    call.__defaults__ = tuple(argument.default_value for argument in arguments if argument.has_default_value())
    call.__name__ = call.__qualname__ = schema.name
    call.__doc__ = f"Calls {overload}: {schema.text}"
    return call
