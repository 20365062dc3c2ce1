"""One wiring, several implementations: an operator's schema, fake and autograd, stated once.

``ports/<op>.py`` holds a function ``register(op)`` that states them, and the public function that calls them::

    def register(op):
        op.define("sigmoid(Tensor x) -> Tensor", fake=torch.empty_like)
        op.define("sigmoid_backward(Tensor grad_y, Tensor y) -> Tensor", fake=lambda grad_y, y: torch.empty_like(y))
        op.autograd("sigmoid", save=["result"], backward=lambda ctx, grad_y: ...)

    def sigmoid(x):
        return op.sigmoid(x)

    op = wire(__name__, register)

The file is executed once for each implementation, under a module name that identifies it; :func:`wire` registers into
the library that belongs to that name. Gradients, opcheck and torch.compile therefore use the same code everywhere.

Everything is registered by torch's public API (``public.py``). An op whose calls are so small that host time matters
can opt in to torch's internals, which need less of it: ``wire(..., direct=True)`` (``direct.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import public
from .saving import Declared, Gradient, Saving, counting_writes, without_gradient
from .schema import Schema


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


def wire(module: str, register: Callable[[Operators], None], *, direct: bool = False) -> Operators:
    """The operators that ``register`` states, for the implementation for which ``module`` is executed.

    Args:
        module: ``__name__`` of the calling file.
        register: a function of an :class:`Operators` that calls its ``define`` and ``autograd``.
        direct: calls use torch's internals, which need less host time; a wheel with such an op is for the versions of
            torch that trifold was tested with.

    Raises:
        RuntimeError: the file was imported directly; it belongs to a workspace and is loaded through it.
    """
    library = _libraries.get(module)
    if library is None:
        raise RuntimeError(f'{module} is loaded with trifold.load("<op>"), not imported')
    operators = Operators(library, direct=direct)
    register(operators)
    operators._seal()
    return operators


class Operators:
    """The operators of one op, in one library; each defined operator becomes an attribute that calls it."""

    def __init__(self, library: Library, *, direct: bool = False) -> None:
        self.library = library
        self.direct = direct
        self.schemas: dict[str, Schema] = {}
        self._gradients: dict[str, Gradient] = {}

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
        try:
            self.library.registry.define(schema, tags=(torch.Tag.pt2_compliant_tag, *tags))
        except RuntimeError as error:
            raise ValueError(f"'{schema}' is not a schema: {error}") from None
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
        self._gradients[name] = Gradient(saving, backward, declared)

    def overload(self, name: str) -> torch._ops.OpOverload[..., Any]:
        """``torch.ops.<namespace>.<name>.default``."""
        return _overload(self.library, name)

    @property
    def differentiable(self) -> bool:
        """Whether any operator has a gradient."""
        return bool(self._gradients)

    def has_gradient(self, name: str) -> bool:
        """Whether the operator ``name`` has a gradient."""
        return name in self._gradients

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"the operator {name} is not defined; defined are: {', '.join(self.schemas) or 'none'}")

    def _seal(self) -> None:
        connect: Callable[..., Callable[..., Any]] = public.connect
        if self.direct:
            from . import direct  # later versions of torch may lack what it uses

            connect = direct.connect
        for name, schema in self.schemas.items():
            gradient = self._gradients.get(name) or without_gradient(schema)
            call = connect(self.library.registry, schema, self.overload(name), gradient)
            setattr(self, name, counting_writes(call, schema) if schema.written else call)


def _overload(library: Library, name: str) -> torch._ops.OpOverload[..., Any]:
    overload: torch._ops.OpOverload[..., Any] = getattr(getattr(torch.ops, library.namespace), name).default
    return overload
