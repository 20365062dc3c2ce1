"""Calls in a launch function: of functions that bindings have, of helpers, and of methods."""

from __future__ import annotations

import ast
import inspect
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numba import types

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host_facts import HostFacts
from trifold.draft.host_keywords import Keywords, bound_to, require_all_read
from trifold.draft.refusal import DraftError


@dataclass
class Returned:
    value: Any


class Jumped(Returned):
    """Control left the iteration of a loop."""


class HostCalls(HostFacts):
    """A base class of the executor."""

    frames: list[tuple[str, int]]
    depth: int
    callers: list[dict[str, Any]]  # the names of the functions that called this one

    def statements(self, nodes: Sequence[ast.stmt], into: list[cpp.Stmt]) -> Returned | None:
        raise NotImplementedError

    def _tree(self, function: FunctionType) -> ast.FunctionDef:
        raise NotImplementedError

    def is_inlined(self, function: Any) -> bool:
        """Whether a call of it is replaced by its statements: a helper of the prototype."""
        from trifold.draft.host_functions import HANDLERS  # which imports this class

        if isinstance(function, v.Local):
            return True
        return isinstance(function, FunctionType) and function not in HANDLERS and not _is_of_a_library(function)

    def called(self, function: Any, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        if isinstance(function, v.Method):
            return _with_dtype_of(self.method(function, arguments, keywords, node), (function.owner,))
        if isinstance(function, v.Either) and len(arguments) == 1 and not keywords:
            precision = _precision(function)
            if precision is not None:
                return self.rounded(precision, v.number(arguments[0]))
        if isinstance(function, v.Either):
            raise DraftError(
                self.place(node), "which function this calls is decided by the call", "choose a value instead"
            )
        from trifold.draft.host_functions import HANDLERS  # which imports this class

        handler: Any = HANDLERS.get(function) if not isinstance(function, v.Local) else None
        if handler is not None:
            given = Keywords(keywords)
            made = handler(self, arguments, given, node)
            require_all_read(given, function, self.place, node)
            return _with_dtype_of(made, arguments)
        if isinstance(function, v.Local):
            defaults = self._defaults_of(function)
            return self.inlined(function.tree, self.frames[-1], function.names, defaults, arguments, keywords, node)
        if self.is_inlined(function):
            tree = self._tree(function)
            frame = self.frames.pop()
            defaults = _defaults(function)
            return self.inlined(tree, frame, {}, defaults, arguments, keywords, node, function.__globals__)
        if isinstance(getattr(function, "__self__", None), (dict, int, float, list)):
            found = function(*arguments, **keywords)
            return tuple(found) if isinstance(found, type({}.items())) else found
        plain = function in (len, sum, tuple, str, int, float, bool, abs, range, list, *vars(math).values())
        if plain and not any(_symbolic(each) for each in (*arguments, *keywords.values())):
            return function(*arguments, **keywords)
        name = getattr(function, "__name__", str(function))
        raise DraftError(self.place(node), f"{name} in a launch function is not translated", _remedy_for(function))

    def inlined(
        self,
        tree: ast.FunctionDef,
        frame: tuple[str, int],
        names: dict[str, Any],
        defaults: dict[str, Any],
        arguments: Sequence[Any],
        keywords: dict[str, Any],
        node: ast.AST,
        outer: dict[str, Any] | None = None,
    ) -> Any:
        """The result of a helper, whose body is written at its call."""
        if self.depth > 12:
            raise DraftError(self.place(node), "helpers that call each other are not translated", "write a loop")
        bound = bound_to(tree.args, defaults, tuple(arguments), keywords)
        if isinstance(bound, str):
            raise DraftError(self.place(node), f"{tree.name} {bound}", "call it with its parameters")
        saved = self.names, self.globals, self.frames
        self.names, self.frames = {**names, **bound}, [*self.frames, frame]
        if outer is not None:
            self.globals = outer | vars(__import__("builtins"))
        self.depth += 1
        self.callers.append(saved[0])
        into = self.into
        try:
            done = self.statements(tree.body, into)
        finally:
            self.depth -= 1
            self.callers.pop()
            self.names, self.globals, self.frames = saved
            self.into = into
        return None if done is None else done.value

    def _defaults_of(self, function: v.Local) -> dict[str, Any]:
        """The values of the parameters' defaults of a function that is defined within this one."""
        given, inside = function.tree.args, self.names
        plain = [each.arg for each in (*given.posonlyargs, *given.args)]
        stated = dict(zip(plain[len(plain) - len(given.defaults) :], given.defaults, strict=True))
        stated |= {each.arg: value for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value}
        self.names = function.names
        try:
            return {name: self.evaluate(value) for name, value in stated.items()}
        finally:
            self.names = inside

    def assign_elements(self, x: v.Tensor, value: Any, target: ast.Subscript) -> None:
        """``x[i] = number``, by the method that fills a part of a tensor."""
        if not isinstance(value, (v.Number, bool, int, float)):
            problem = "only a number is assigned to a part of a tensor"
            raise DraftError(self.place(target), problem, "write x[i].copy_(y) for a tensor y")
        written = ast.copy_location(ast.Call(target, [], []), target)
        self.method(v.Method(self.part_of(x, target.slice, target), "fill_"), (value,), {}, written)

    def method(self, method: v.Method, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        owner, name = method.owner, method.name
        if isinstance(owner, v.Tensor):
            from trifold.draft.host_pieces import METHODS  # which imports this class

            found: Any = METHODS.get(name)
            if found is None:
                raise DraftError(
                    self.place(node),
                    f"Tensor.{name} is not translated in a launch function",
                    "let a kernel compute it, or call it in ports/*.py before the operator",
                )
            given = Keywords(keywords)
            made = found(self, owner, arguments, given, node)
            require_all_read(given, method, self.place, node)
            return made
        if isinstance(owner, v.Number):
            bits = cpp.CallTo("trifold::bit_length", (owner.expr,), type=v.INT, interval=(0, 63))
            return v.Number(bits, v.INT, (0, 63))
        if isinstance(owner, v.Text) and name == "removeprefix" and owner.parts and owner.parts[0] == arguments[0]:
            return v.Text(owner.parts[1:])
        if isinstance(owner, v.Shape) and name == "numel":
            return self.product(owner, node)
        if isinstance(owner, str) and name == "format":
            return self.formatted_by_fields(owner, arguments, keywords, node)
        if isinstance(owner, str) and not any(_symbolic(each) for each in (*arguments, *keywords.values())):
            return getattr(owner, name)(*arguments, **keywords)
        problem = f".{name} is not translated in a launch function"
        raise DraftError(self.place(node), problem, "use numbers, tuples, and methods of tensors")


def _is_of_a_library(function: FunctionType) -> bool:
    """Whether its source is not the user's: a refusal would name a line of the library."""
    return function.__module__.split(".")[0] in ("torch", "numba", "numpy")


def _remedy_for(function: Any) -> str:
    if hasattr(function, "_fields"):
        return "write a tuple, and unpack it"
    if function in (print, warnings.warn):
        return "leave it out"
    return "let a kernel compute it, or call it in ports/*.py before the operator"


def _defaults(function: FunctionType) -> dict[str, Any]:
    return {
        name: each.default
        for name, each in inspect.signature(function).parameters.items()
        if each.default is not inspect.Parameter.empty
    }


def _with_dtype_of(made: Any, origins: Sequence[Any]) -> Any:
    """A tensor of unknown dtype, with the dtype of the one that it is made from."""
    if isinstance(made, v.Tensor) and made.known is None and made.like is None:
        made.like = next((each for each in origins if isinstance(each, v.Tensor) and each is not made), None)
    return made


def _precision(function: v.Either) -> v.Precision | None:
    """The NumPy float type that depends on the key's dtype; None: it is another function."""
    known = function.test.of_dtype
    if (function.chosen, function.otherwise) != (np.float64, np.float32) or known is None:
        return None
    return v.Precision(function.test.expr, tuple(types.float64 if each else types.float32 for each in known))


def _symbolic(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_symbolic(each) for each in value)
    return type(value).__module__ == v.__name__  # of a class of values that the call decides
