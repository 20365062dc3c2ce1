"""One wiring, several implementations: an operator's schema, fake and autograd, stated once.

``ports/<op>.py`` holds a function ``register(op)`` that states them, and the public function that calls them::

    def register(op):
        op.define("sigmoid(Tensor x) -> Tensor", fake=torch.empty_like)
        op.define("sigmoid_backward(Tensor grad_y, Tensor y) -> Tensor", fake=lambda grad_y, y: torch.empty_like(y))
        op.autograd("sigmoid", save=["result"], backward=lambda ctx, grad_y: ...)

    def sigmoid(x):
        return op.sigmoid(x)

    op = wire(__name__, register)

The file is executed once for each implementation, under a module name that names it; :func:`wire` registers into
the library which belongs to that name. Gradients, opcheck and torch.compile are therefore the same code everywhere.

Why not ``torch.library.register_autograd``: its Python kernel runs on every call, even if no gradient is requested.
Here a call through :class:`Operators` checks ``requires_grad`` first and bypasses autograd if it can, and one that
needs a gradient enters the ``autograd.Function`` directly. Calls from elsewhere (``torch.ops``, a compiled graph) reach
the same function through the dispatcher's Autograd key.

Host time of a call on machines with an H200, torch 2.11, 2^10 float32: the port's over that of torch's own op, lowest
and highest of three machines (``trifold bench add mul sigmoid --only host``; torch's own take 5 to 10 µs without grad
and 52 to 113 µs forward and backward, by machine):

    ==================  ===========  ===========  ===========
                        add          mul          sigmoid
    no grad             1.10 - 1.21  1.14 - 1.27  1.10 - 1.31
    forward, with grad  1.55 - 1.68  1.61 - 1.77  1.51 - 1.81
    forward, backward   1.17 - 1.23  1.16 - 1.23  1.25 - 1.32
    ==================  ===========  ===========  ===========

Taken for it (µs of a call on a CPU machine, where the port's sigmoid takes 1.7 without grad and 16.4 forward and
backward):

- The dispatcher called directly (``_dispatch_call_boxed``) in place of ``OpOverload.__call__``, 0.25: tensors with
  ``__torch_function__`` and modes have been asked before, and nothing else is between the two.
- ``backward`` as the ``apply`` of the class behind ``ctx``, which the engine calls, in place of torch's method in
  Python that looks for it: 0.5, and 1 to 2 on the machines with an H200.
- The guard as an object that is deleted in place of a ``with`` statement, 0.15; ``ctx.constants`` only where there are
  any, 0.08.
- Functions whose text is written for the operator's own arguments (``written.py``): 0.4 of layer_norm's forward, which
  took 7.8. What an operator leaves for backward as one tensor in place of two: 0.7 of 8.5, and 1 of all.

Tried and left:

- ``OperatorHandle.redispatch_boxed`` with the backend's key alone: 0.07 less, but it passes by modes, tensor
  subclasses, and the negative and conjugate bits.
- Forward and backward written out for sigmoid, with no ``save`` and no checks in backward: ratio 1.20 - 1.22. The
  checks are what makes the same function right under torch.compile, torch.func and forward mode.
- An ``autograd.Function`` around torch's own sigmoid and its backward has a ratio of 1.22 - 1.25 for forward and
  backward: what is left to gain without leaving Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad as _forward_ad

from .formulas import Declared, Formula, Saving, below, below_autograd, formula_of, undifferentiable
from .schema import Schema
from .written import parameters, written

_is_grad_enabled = torch.is_grad_enabled


@dataclass(frozen=True)
class Library:
    """The torch library that one implementation of one op registers into.

    Attributes:
        namespace: its name in ``torch.ops``.
        registry: the ``torch.library.Library`` that owns the registrations; they end with it.
    """

    namespace: str
    registry: torch.library.Library


_libraries: dict[str, Library] = {}


def bind(module: str, library: Library) -> None:
    """Make the module named ``module`` register into ``library`` when it is executed."""
    _libraries[module] = library


def wire(module: str, register: Callable[[Operators], None]) -> Operators:
    """The operators that ``register`` states, for the implementation that ``module`` is executed for.

    Args:
        module: ``__name__`` of the calling file.
        register: a function of an :class:`Operators` that calls its ``define`` and ``autograd``.

    Raises:
        RuntimeError: the file was imported directly; it belongs to a workspace and is loaded through it.
    """
    library = _libraries.get(module)
    if library is None:
        raise RuntimeError(f'{module} is loaded with trifold.load("<op>"), not imported')
    operators = Operators(library)
    register(operators)
    operators._seal()
    return operators


class Operators:
    """The operators of one op, in one library; each defined operator becomes an attribute that calls it."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.schemas: dict[str, Schema] = {}
        self._formulas: dict[str, Formula] = {}

    def define(
        self,
        schema: str,
        *,
        fake: Callable[..., Any],
        tags: Sequence[torch.Tag] = (),
    ) -> None:
        """State an operator.

        Args:
            schema: ``name(Type argument, ...) -> Type`` in torch's schema language. One that writes into an argument,
                ``Tensor(a!)``, must be called without gradients: in a backward pass, or under ``torch.no_grad()``.
                docs/binding.md lists the types that a C++ function can have.
            fake: computes an empty result (shape, dtype, strides, device) from the arguments; never reads data.
            tags: torch tags in addition to ``pt2_compliant_tag``, such as ``torch.Tag.nondeterministic_seeded``.
        """
        parsed = Schema.parse(schema)
        if parsed.name in self.schemas:
            raise ValueError(f"the operator {parsed.name} is defined twice")
        if parsed.keywords:
            names = ", ".join(parsed.keywords)
            raise ValueError(f"'{schema}' has arguments after *: {names}; a C++ function takes all by position")
        self.library.registry.define(schema, tags=(torch.Tag.pt2_compliant_tag, *tags))
        torch.library.register_fake(f"{self.library.namespace}::{parsed.name}", fake, lib=self.library.registry)
        self.schemas[parsed.name] = parsed

    def autograd(
        self,
        name: str,
        *,
        save: Sequence[str] | Callable[..., tuple[Any, ...]],
        backward: Callable[..., Any],
        materialize_grads: bool = True,
        no_gradient: Sequence[int] = (),
    ) -> None:
        """State the gradient of the operator ``name``.

        Args:
            name: a defined operator.
            save: what backward needs: names of arguments that are one tensor, and ``"result"`` for the output, or
                ``"result[1]"`` for one of several. Or a function of the arguments followed by the output that returns
                what to save. Tensors (and None) are available as ``ctx.saved_tensors``, everything else, if there is
                any, as ``ctx.constants``, each in order; a list of tensors is unpacked:
                ``save=lambda xs, y: (*xs, y)``.
            backward: a function of ``ctx`` and the gradient of each output that returns one gradient for each argument,
                or None. ``ctx.needs_input_grad`` says which are requested. It calls operators of this object or of
                torch, whose derivatives then define the second derivatives. For a list of tensors each of these is a
                list.
            materialize_grads: whether the gradient of an unused output is a tensor of zeros; otherwise it is None,
                which saves memory for an operator with several outputs.
            no_gradient: positions, among several outputs, of those that only backward uses. They require no gradient, a
                call through this object does not return them, and ``backward`` does not receive their gradients. If one
                output remains, a call returns that one.
        """
        if name not in self.schemas:
            raise ValueError(f"autograd('{name}') comes before define('{name}(...)')")
        saving = Saving.by_function(save) if callable(save) else Saving.by_names(self.schemas[name], save)
        schema = self.schemas[name]
        declared = Declared(len(schema.results), materialize_grads, tuple(no_gradient))
        self._formulas[name] = formula_of(schema, self.overload(name), saving, backward, declared)

    def overload(self, name: str) -> torch._ops.OpOverload[..., Any]:
        """``torch.ops.<namespace>.<name>.default``."""
        return _overload(self.library, name)

    @property
    def differentiable(self) -> bool:
        """Whether any operator has a gradient."""
        return bool(self._formulas)

    def has_gradient(self, name: str) -> bool:
        """Whether the operator ``name`` has a gradient."""
        return name in self._formulas

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"the operator {name} is not defined; defined are: {', '.join(self.schemas) or 'none'}")

    def _seal(self) -> None:
        for name, schema in self.schemas.items():
            overload = self.overload(name)
            formula = self._formulas.get(name) or undifferentiable(schema, overload)
            self.library.registry.impl(name, _autograd_kernel(schema, formula), "Autograd")
            setattr(self, name, _entry(schema, overload, formula))


def _overload(library: Library, name: str) -> torch._ops.OpOverload[..., Any]:
    overload: torch._ops.OpOverload[..., Any] = getattr(getattr(torch.ops, library.namespace), name).default
    return overload


def _autograd_kernel(schema: Schema, formula: Formula) -> Callable[..., Any]:
    """The kernel that the dispatcher calls for the Autograd key."""
    tensors, lists = schema.tensor_positions, schema.list_positions

    def kernel(*args: Any) -> Any:
        if _forward_ad._current_level >= 0:
            return formula.complete(*args)  # which has no jvp: a tangent is an error, not dropped
        if _is_grad_enabled() and any(args[i] is not None and args[i].requires_grad for i in tensors):
            return formula.complete(*args)
        if lists and _is_grad_enabled() and any(_one_requires_grad(args[i]) for i in lists):
            return formula.complete(*args)
        return formula.compute(*args)

    return kernel


def _each(tensors: Any) -> Sequence[Any]:
    """Those of a list; what is no list is refused by the dispatcher, later."""
    return tensors if isinstance(tensors, list | tuple) else ()


def _one_requires_grad(tensors: Any) -> bool:
    return any(getattr(tensor, "requires_grad", False) for tensor in _each(tensors))


def _entry(schema: Schema, overload: torch._ops.OpOverload[..., Any], formula: Formula) -> Callable[..., Any]:
    """What the public function calls: the operator, with as little overhead as is correct."""
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
