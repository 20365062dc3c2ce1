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

Why not ``torch.library.register_autograd``: its Python kernel runs on every call, also where no gradient is asked
for. Here a call through :class:`Operators` looks at ``requires_grad`` first and goes below autograd at once, and
one that needs a gradient enters the ``autograd.Function`` directly. Calls from elsewhere (``torch.ops``, a compiled
graph) reach the same function through the dispatcher's Autograd key.

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
- The guard as an object that is deleted in place of a ``with`` statement, 0.15; functions of one and two tensors, 0.07;
  ``ctx.constants`` only where there are any, 0.08.

Tried and left:

- ``OperatorHandle.redispatch_boxed`` with the backend's key alone: 0.07 less, but it passes by modes, tensor
  subclasses, and the negative and conjugate bits.
- Forward and backward written out for sigmoid, with no ``save`` and no checks in backward: ratio 1.20 - 1.22. The
  checks are what makes the same function right under torch.compile, torch.func and forward mode.
- An ``autograd.Function`` around torch's own sigmoid and its backward has a ratio of 1.22 - 1.25 for forward and
  backward: what is left to gain without leaving Python.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad as _forward_ad

_below_autograd = torch._C._AutoDispatchBelowAutograd
_has_torch_function = torch.overrides.has_torch_function_variadic
_is_tracing = torch.compiler.is_dynamo_compiling
_is_grad_enabled = torch.is_grad_enabled
_functorch_is_active = torch._C._are_functorch_transforms_active

_Call = Callable[..., Any]


@dataclass(frozen=True)
class Schema:
    """A parsed operator schema such as ``add(Tensor x, Tensor y) -> Tensor``."""

    text: str
    name: str
    arguments: tuple[tuple[str, str], ...]  # (type, name)
    returns: str

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Raises ``ValueError`` where torch would not accept ``text`` as a schema."""
        try:
            parsed = torch._C.parse_schema(f"trifold::{text}")
        except RuntimeError as error:
            raise ValueError(f"'{text}' is not a schema: {error}") from None
        body = re.fullmatch(r"\s*(\w+)\s*\(.*\)\s*->\s*(.*?)\s*", text, re.DOTALL)
        assert body is not None
        arguments = tuple((_type_name(argument.type), argument.name) for argument in parsed.arguments)
        returns = [_type_name(value.type) for value in parsed.returns]
        joined = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
        return cls(text, body[1], arguments, joined)

    @property
    def types(self) -> str:
        """The types alone, as the C++ side spells them: ``(Tensor, Tensor) -> Tensor``."""
        return f"({', '.join(kind for kind, _ in self.arguments)}) -> {self.returns}"

    @property
    def tensor_positions(self) -> tuple[int, ...]:
        return tuple(i for i, (kind, _) in enumerate(self.arguments) if kind.rstrip("?") == "Tensor")


def _type_name(kind: Any) -> str:
    text = str(kind)
    if text.startswith("Optional["):
        return f"{_type_name(kind.getElementType())}?"
    return {"number": "Scalar"}.get(text, text)


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
    """Say that the module named ``module``, when it is executed, registers into ``library``."""
    _libraries[module] = library


def wire(module: str, register: Callable[[Operators], None]) -> Operators:
    """The operators that ``register`` states, for the implementation that ``module`` is executed for.

    Args:
        module: ``__name__`` of the calling file.
        register: takes an :class:`Operators` and calls ``define`` and ``autograd`` on it.

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
        self._formulas: dict[str, _Formula] = {}

    def define(
        self,
        schema: str,
        *,
        fake: Callable[..., Any],
        tags: Sequence[torch.Tag] = (),
    ) -> None:
        """State an operator.

        Args:
            schema: ``name(Type argument, ...) -> Type`` in torch's schema language. One that writes over an argument,
                ``Tensor(a!)``, is called without gradients: in a backward pass, or under ``torch.no_grad()``.
            fake: computes an empty result (shape, dtype, strides, device) from the arguments; never reads data.
            tags: torch tags beside ``pt2_compliant_tag``, such as ``torch.Tag.nondeterministic_seeded``.
        """
        parsed = Schema.parse(schema)
        if parsed.name in self.schemas:
            raise ValueError(f"the operator {parsed.name} is defined twice")
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
            save: what backward needs: names of tensor arguments, and ``"result"`` for the output. Or a function that
                takes the arguments and then the output, and returns it. Tensors (and None) come back as
                ``ctx.saved_tensors``, all else, if there is any, as ``ctx.constants``, each in order.
            backward: takes ``ctx`` and the gradient of each output; returns one gradient for each argument, None
                where there is none. ``ctx.needs_input_grad`` says which are asked for. It calls operators of this
                object or torch, so that second derivatives are what those give.
            materialize_grads: whether an output that nothing was made of has a gradient of zeros; else it has None. An
                operator with several outputs saves that memory so.
            no_gradient: positions, among several outputs, of those that are there for backward alone. They require no
                gradient, and a call through this object leaves them out, as ``backward`` does their gradients: where
                one output is left, it gives that one.
        """
        if name not in self.schemas:
            raise ValueError(f"autograd('{name}') comes before define('{name}(...)')")
        saving = _Saving.by_function(save) if callable(save) else _Saving.by_names(self.schemas[name], save)
        overload = _overload(self.library, name)
        left = tuple(i for i in range(len(overload._schema.returns)) if i not in no_gradient)
        declared = _Declared(materialize_grads, tuple(no_gradient), left)
        self._formulas[name] = _formula(name, overload, saving, backward, declared)

    def overload(self, name: str) -> torch._ops.OpOverload[..., Any]:
        """``torch.ops.<namespace>.<name>.default``."""
        return _overload(self.library, name)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"the operator {name} is not defined; defined are: {', '.join(self.schemas) or 'none'}")

    def _seal(self) -> None:
        for name, schema in self.schemas.items():
            overload = self.overload(name)
            formula = self._formulas.get(name) or _undifferentiable(name, overload)
            self.library.registry.impl(name, _autograd_kernel(schema, formula), "Autograd")
            setattr(self, name, _entry(schema, overload, formula))


def _overload(library: Library, name: str) -> torch._ops.OpOverload[..., Any]:
    overload: torch._ops.OpOverload[..., Any] = getattr(getattr(torch.ops, library.namespace), name).default
    return overload


@dataclass(frozen=True)
class _Formula:
    """The gradient of one operator.

    Attributes:
        function: computes and saves in one step, which is the fastest; gives the outputs that a caller is to have.
        complete: the same with all outputs, which the dispatcher wants.
        transformable: as ``complete``, for torch.func, which takes the two steps apart.
        compute: the operator below autograd.
        pick: takes all outputs, returns those that a caller is to have; None: that is all of them.
    """

    function: type[torch.autograd.Function]
    complete: type[torch.autograd.Function]
    transformable: type[torch.autograd.Function]
    compute: _Call
    pick: _Call | None


@dataclass(frozen=True)
class _Saving:
    """What backward needs.

    Attributes:
        choose: takes the arguments and then the output; returns what is saved.
        positions: of tensors among the arguments and then the output, where that is all; the fastest to save.
    """

    choose: Callable[..., tuple[Any, ...]]
    positions: tuple[int, ...] | None = None

    @classmethod
    def by_function(cls, choose: Callable[..., tuple[Any, ...]]) -> _Saving:
        return cls(choose)

    @classmethod
    def by_names(cls, schema: Schema, names: Sequence[str]) -> _Saving:
        """Raises ``ValueError`` where ``names`` is not what can be named."""
        tensors = {argument: i for i, (kind, argument) in enumerate(schema.arguments) if kind == "Tensor"}
        if schema.returns == "Tensor":
            tensors["result"] = len(schema.arguments)
        unknown = [name for name in names if name not in tensors]
        if isinstance(names, str) or unknown:
            raise ValueError(
                f"autograd('{schema.name}', save={names!r}): it is a list of names out of {', '.join(tensors)}, or a "
                "function that returns what to save"
            )
        positions = tuple(tensors[name] for name in names)
        return cls(lambda *values: tuple(values[i] for i in positions), positions)

    def forward(self, run: _Call, arity: int, pick: _Call | None = None) -> Callable[..., Any]:
        """``forward`` of an ``autograd.Function`` that computes and saves in one step, and gives what ``pick`` does."""
        if self.positions is None or pick is not None:
            return self._forward_of_anything(run, pick)
        if self.positions == (arity,) and arity == 1:
            return _forward_saving_the_result_of_one(run)
        choose, positions = self.choose, self.positions

        def forward(ctx: Any, *args: Any) -> Any:
            guard = _below_autograd()
            try:
                output = run(*args)
            finally:
                del guard
            if positions:
                ctx.save_for_backward(*choose(*args, output))
            return output

        return forward

    def _forward_of_anything(self, run: _Call, pick: _Call | None) -> Callable[..., Any]:
        choose = self.choose

        def forward(ctx: Any, *args: Any) -> Any:
            guard = _below_autograd()
            try:
                output = run(*args)
            finally:
                del guard
            saved = choose(*args, output)
            for value in saved:
                if type(value) is not Tensor:
                    _keep(ctx, saved)
                    break
            else:
                ctx.save_for_backward(*saved)
            return output if pick is None else pick(output)

        return forward


def _forward_saving_the_result_of_one(run: _Call) -> Callable[..., Any]:
    def forward(ctx: Any, x: Tensor) -> Any:
        guard = _below_autograd()
        try:
            output = run(x)
        finally:
            del guard
        ctx.save_for_backward(output)
        return output

    return forward


@dataclass(frozen=True)
class _Declared:
    """What an operator says of the gradients of its outputs."""

    materialize_grads: bool = True
    no_gradient: tuple[int, ...] = ()
    left: tuple[int, ...] = (0,)  # the others

    @property
    def pick(self) -> _Call | None:
        return operator.itemgetter(*self.left) if self.no_gradient else None

    def declare(self, ctx: Any, outputs: Any) -> None:
        # Of an only one that has a gradient, backward is given it; zeros for the others would be for nothing.
        if not self.materialize_grads or (self.no_gradient and len(self.left) == 1):
            ctx.set_materialize_grads(False)
        if self.no_gradient:
            ctx.mark_non_differentiable(*(outputs[i] for i in self.no_gradient))

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


def _formula(
    name: str,
    overload: torch._ops.OpOverload[..., Any],
    saving: _Saving,
    backward: Callable[..., Any],
    declared: _Declared,
) -> _Formula:
    run, arity, pick = _below(overload), len(overload._schema.arguments), declared.pick

    def compute(*args: Any) -> Any:
        guard = _below_autograd()
        try:
            return run(*args)
        finally:
            del guard

    def setup_context(ctx: Any, args: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, saving.choose(*args, output))
        declared.declare(ctx, output)

    def function(backward: Callable[..., Any], **members: Any) -> type[torch.autograd.Function]:
        members = {member: staticmethod(function) for member, function in members.items()}
        return type(name, (torch.autograd.Function,), {"backward": staticmethod(backward), **members})

    forward = declared.after(saving.forward(run, arity))
    of_all = declared.picking(backward, arity)
    complete = function(of_all, forward=forward)
    fast = complete
    if pick is not None:
        of_picked = replace(declared, no_gradient=())
        fast = function(backward, forward=of_picked.after(saving.forward(run, arity, pick)))
    # What the engine calls: otherwise a method of torch's in Python that looks for `backward` and calls it.
    fast._backward_cls.apply = backward  # type: ignore[attr-defined]
    transformable = function(of_all, forward=compute, setup_context=setup_context)
    transformable.generate_vmap_rule = True
    return _Formula(fast, complete, transformable, compute, pick)


def _below(overload: torch._ops.OpOverload[..., Any]) -> _Call:
    """``overload`` below autograd: what it calls in the end, without the search for ``__torch_function__``."""
    schema = overload._schema
    handle = torch._C._dispatch_find_schema_or_throw(schema.name, schema.overload_name)
    return functools.partial(torch._C._dispatch_call_boxed, handle)


def _keep(ctx: Any, saved: tuple[Any, ...]) -> None:
    tensors: list[Tensor | None] = []
    constants: list[Any] = []
    for value in saved:  # once: it is a call's host time
        (tensors if value is None or isinstance(value, Tensor) else constants).append(value)
    if constants:
        ctx.constants = tuple(constants)
    ctx.save_for_backward(*tensors)


def _undifferentiable(name: str, overload: torch._ops.OpOverload[..., Any]) -> _Formula:
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"{name} has no gradient: ports/*.py states no op.autograd('{name}', ...) for it")

    def forward(ctx: Any, *args: Any) -> Any:
        raise RuntimeError(f"{name} writes over an argument and has no gradient; call it under torch.no_grad()")

    formula = _formula(name, overload, _Saving(lambda *_: (), ()), backward, _Declared())
    if not overload._schema.is_mutable:
        return formula
    refused = type(name, (torch.autograd.Function,), {"forward": staticmethod(forward)})
    return replace(formula, function=refused, complete=refused, transformable=refused)


def _autograd_kernel(schema: Schema, formula: _Formula) -> Callable[..., Any]:
    """What the dispatcher calls for the Autograd key."""
    tensors = schema.tensor_positions

    def kernel(*args: Any) -> Any:
        if _forward_ad._current_level >= 0:
            return formula.complete.apply(*args)  # which has no jvp: a tangent is an error, not dropped
        if _is_grad_enabled() and any(args[i] is not None and args[i].requires_grad for i in tensors):
            return formula.complete.apply(*args)
        return formula.compute(*args)

    return kernel


def _entry(schema: Schema, overload: torch._ops.OpOverload[..., Any], formula: _Formula) -> Callable[..., Any]:
    """What the public function calls: the operator by the shortest way that is right.

    One and two tensors, the arguments of most operators, have a function of their own: half a microsecond counts here,
    and ``*args`` with a loop over it costs a tenth.
    """
    kinds, pick = tuple(kind for kind, _ in schema.arguments), formula.pick
    # Function.apply of Python first unwraps dead functorch wrappers; without a transform there are none.
    apply = super(torch.autograd.Function, formula.function).apply  # type: ignore[misc]
    ways = overload, _below(overload), apply, formula.transformable.apply
    if pick is None and kinds == ("Tensor",):
        call = _unary(*ways)
    elif pick is None and kinds == ("Tensor", "Tensor"):
        call = _binary(*ways)
    else:
        call = _variadic(*ways, schema.tensor_positions, pick)
    call.__name__ = call.__qualname__ = schema.name
    call.__doc__ = f"Calls {overload}: {schema.text}"
    return call


def _unary(overload: _Call, run: _Call, apply: _Call, transformable: _Call) -> _Call:
    def call(x: Tensor) -> Any:
        if _is_tracing() or _has_torch_function(x):
            return overload(x)
        if _functorch_is_active() or _forward_ad._current_level >= 0:
            return transformable(x)
        if _is_grad_enabled() and getattr(x, "requires_grad", False):
            return apply(x)
        guard = _below_autograd()
        try:
            return run(x)
        finally:
            del guard

    return call


def _binary(overload: _Call, run: _Call, apply: _Call, transformable: _Call) -> _Call:
    def call(x: Tensor, y: Tensor) -> Any:
        if _is_tracing() or _has_torch_function(x, y):
            return overload(x, y)
        if _functorch_is_active() or _forward_ad._current_level >= 0:
            return transformable(x, y)
        if _is_grad_enabled() and (getattr(x, "requires_grad", False) or getattr(y, "requires_grad", False)):
            return apply(x, y)
        guard = _below_autograd()
        try:
            return run(x, y)
        finally:
            del guard

    return call


def _variadic(
    overload: _Call, run: _Call, apply: _Call, transformable: _Call, tensors: tuple[int, ...], pick: _Call | None
) -> _Call:
    def call(*args: Any) -> Any:
        if _is_tracing() or _has_torch_function(*args):
            outputs = overload(*args)
        elif _functorch_is_active() or _forward_ad._current_level >= 0:
            outputs = transformable(*args)
        else:
            if _is_grad_enabled():
                for i in tensors:
                    if getattr(args[i], "requires_grad", False):
                        return apply(*args)  # which picks
            guard = _below_autograd()
            try:
                outputs = run(*args)
            finally:
                del guard
        return outputs if pick is None else pick(outputs)

    return call
