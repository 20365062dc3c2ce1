"""Executes a launch function on values that stand for all calls, and writes what it does as the binding's C++."""

from __future__ import annotations

import ast
import inspect
import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np
import torch
from numba import types

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host_conditions import call, opposite, text_of
from trifold.draft.host_parts import HostParts
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import function_tree, without_none
from trifold.draft.variables import KEYWORDS


@dataclass
class Launch(cpp.Stmt):
    """A launch, which is written once the kernel is."""

    kernel: Any
    grid: tuple[v.Number, ...]
    block: tuple[v.Number, ...]
    arguments: list[Any]
    place: Place
    possible: tuple[bool, ...] | None = None  # for which dtypes of the key; None: for all
    written: list[cpp.Stmt] = field(default_factory=list)


class _Different:
    """A name that has another value after each branch of a condition."""


@dataclass
class Returned:
    value: Any


class Host(HostParts):
    """One launch function. ``body`` is its C++; ``launches`` are in the order of the text.

    ``earlier``: the tensors of the functions before it, by name. One that forward returns, and backward takes by the
    same name without a check of its dtype, is of the dtype that forward gives it; the binding checks that. ``tables``:
    the dicts of constants that the binding has, by name; one that is used here is added.
    """

    def __init__(
        self, function: FunctionType, earlier: dict[str, v.Tensor], tables: dict[str, cpp.PairsDefinition]
    ) -> None:
        self.function = function
        self.earlier = earlier
        self.results: dict[str, v.Tensor] = {}
        self.frames: list[tuple[str, int]] = []
        self.key: v.Tensor | None = None
        self.key_dtypes: v.Dtypes = ()
        self.key_sizes: tuple[int, ...] = ()  # where the size of the key's elements is all that is known of its dtype
        self.integers: v.Dtypes | None = None  # which the key is viewed as, then
        self.dimension_calls: dict[int, v.Tensor] = {}
        self.facts_if_false: dict[int, tuple[v.Fact, ...]] = {}
        self.kept: list[Any] = []  # so that an id is not used twice
        self.launches: list[Launch] = []
        self.taken: set[str] = set()
        self.body: list[cpp.Stmt] = []
        self.globals = function.__globals__ | vars(__import__("builtins"))
        self.names: dict[str, Any] = {}
        self.depth = 0
        self.tables = tables
        self.possible: tuple[bool, ...] | None = None
        self.holds: dict[str, bool] = {}  # conditions in whose branches this is, by their text
        self.parameters: list[tuple[str, str]] = []
        self.result = "void"
        tree = self._tree(function)
        self._parameters(function, tree)
        self.arguments = dict(self.names)
        self.statements(tree.body, self.body)

    def known_by_name(self) -> dict[str, v.Tensor]:
        """The tensors that it takes and returns, where their dtypes are known."""
        taken = {name: value for name, value in self.arguments.items() if isinstance(value, v.Tensor)}
        return {name: each for name, each in {**taken, **self.results}.items() if each.dtypes is not None}

    def place(self, node: ast.AST) -> Place:
        path, offset = self.frames[-1]
        return Place(path, getattr(node, "lineno", 1) + offset)

    def _tree(self, function: FunctionType) -> ast.FunctionDef:
        tree, before = function_tree(function)
        self.frames.append((inspect.getsourcefile(function) or "?", before))
        return tree

    def _parameters(self, function: FunctionType, tree: ast.FunctionDef) -> None:
        hints = typing.get_type_hints(function)
        for each in tree.args.args:
            name, hint = each.arg, hints.get(each.arg)
            own = self.fresh(name)
            inner, optional = without_none(hint)
            if inner is torch.Tensor:
                kind = "const std::optional<Tensor>&" if optional else "const Tensor&"
                self.names[name] = v.Tensor(cpp.Name(own), optional=optional, present=not optional, strided=True)
            elif inner in (int, float, bool) and not optional:
                types_ = {int: v.INT, float: v.FLOAT, bool: v.BOOL}[inner]
                kind = {int: "int64_t", float: "double", bool: "bool"}[inner]
                self.names[name] = v.Number(cpp.Name(own, type=types_), types_)
            else:
                raise DraftError(
                    self.place(tree),
                    f"{function.__name__}'s parameter {name} has no type that a binding has",
                    "annotate it as Tensor, Tensor | None, int, float or bool",
                )
            self.parameters.append((kind, own))
        self.result = self._result_type(hints.get("return"), tree)

    def _result_type(self, hint: Any, tree: ast.FunctionDef) -> str:
        if hint is type(None):
            return "void"
        if hint is torch.Tensor:
            return "Tensor"
        if typing.get_origin(hint) is tuple and all(a is torch.Tensor for a in typing.get_args(hint)):
            return f"std::tuple<{', '.join('Tensor' for _ in typing.get_args(hint))}>"
        raise DraftError(self.place(tree), "the result is not annotated as Tensor, a tuple of them, or None")

    def fresh(self, wanted: str) -> str:
        wanted = wanted.lstrip("_") or "value"
        name, number = wanted + ("_" if wanted in KEYWORDS else ""), 2
        while name in self.taken:
            name, number = f"{wanted}{number}", number + 1
        self.taken.add(name)
        return name

    # --------------------------------------------------------------------------------------------- statements

    def statements(self, nodes: Sequence[ast.stmt], into: list[cpp.Stmt]) -> Returned | None:
        """Executes until a return; None: control goes on."""
        for number, node in enumerate(nodes):
            done = self.statement(node, into, nodes[number + 1 :])
            if done is not None:
                return done
        return None

    def statement(self, node: ast.stmt, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        self.into = into
        match node:
            case ast.Assign(targets=[target], value=value):
                self.assign(target, self.evaluate(value), into)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.evaluate(value), into)
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
                return None
            case ast.Expr(value=ast.Call() as value):
                self.evaluate(value)
            case ast.If():
                return self.condition(node, into, rest)
            case ast.Return(value=value):
                found = None if value is None else self.evaluate(value)
                if self.depth == 0:
                    into.append(cpp.Return(self.returned(found, node)))
                return Returned(found)
            case ast.With(body=body):
                return self.statements(body, into)
            case ast.For():
                return self.loop(node, into)
            case ast.FunctionDef():
                self.names[node.name] = v.Local(node, self.names)
            case ast.Raise():
                raise DraftError(self.place(node), "a raise without a condition is not translated")
            case _:
                raise DraftError(self.place(node), f"{type(node).__name__} in a launch function is not translated")
        return None

    into: list[cpp.Stmt]

    def returned(self, value: Any, node: ast.AST) -> cpp.Expr | None:
        if value is None:
            return None
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, v.Tensor) and isinstance(each.expr, cpp.Name):
                self.results[each.expr.text] = each
        if isinstance(value, v.Tensor):
            return value.expr
        if isinstance(value, tuple) and all(isinstance(each, v.Tensor) for each in value):
            return cpp.Braces(tuple(each.expr for each in value))
        raise DraftError(self.place(node), "only tensors are returned")

    def assign(self, target: ast.expr, value: Any, into: list[cpp.Stmt]) -> None:
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Name):
            self.names[target.id] = self.named(value, target.id, into)
            return
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = self.unpacked(value, target)
            for each, part in zip(target.elts, parts, strict=True):
                self.assign(each, part, into)
            return
        raise DraftError(self.place(target), "this assignment in a launch function is not translated")

    def unpacked(self, value: Any, target: ast.Tuple | ast.List) -> tuple[Any, ...]:
        if isinstance(value, v.Shape) and len(value.parts) == 1 and isinstance(value.parts[0], v.Part):
            tensor = value.parts[0].tensor
            stars = [n for n, each in enumerate(target.elts) if isinstance(each, ast.Starred)]
            if stars:
                return self.unpacked_around(tensor, len(target.elts), stars[0])
            if tensor.dimensions not in (None, len(target.elts)):
                raise DraftError(
                    self.place(target), f"a shape of {tensor.dimensions} dimensions is unpacked into {len(target.elts)}"
                )
            return tuple(self.size(tensor, d) for d in range(len(target.elts)))
        if isinstance(value, tuple) and len(value) == len(target.elts):
            return value
        raise DraftError(self.place(target), "what is unpacked here is not known while drafting")

    def named(self, value: Any, name: str, into: list[cpp.Stmt]) -> Any:
        """The value in a variable, if it is more than a name or a literal."""
        match value:
            case v.Number(expr=expr) if not isinstance(expr, (cpp.Name, cpp.Literal)):
                own = self.fresh(name)
                kind = {v.INT: "int64_t", v.FLOAT: "double", v.BOOL: "bool"}[value.type]
                into.append(cpp.Declare(f"const {kind}", [own], expr))
                kept = v.Number(
                    cpp.Name(own, type=value.type, interval=value.interval),
                    value.type,
                    value.interval,
                    value.facts,
                    value.of_dtype,
                    value.certain,
                    value.precision,
                    value.bytes_of,
                )
                if id(value) in self.facts_if_false:
                    self.facts_if_false[id(kept)] = self.facts_if_false[id(value)]
                self.kept += [value, kept]
                return kept
            case v.Tensor(expr=expr) if not isinstance(expr, cpp.Name):
                own = self.fresh(name)
                into.append(cpp.Declare("const Tensor", [own], expr))
                value.expr = cpp.Name(own)
                return value
            case v.Sizes(expr=expr) if not isinstance(expr, cpp.Name):
                own = self.fresh(name)
                into.append(cpp.Declare("const std::vector<int64_t>", [own], expr))
                return v.Sizes(cpp.Name(own))
            case v.Either(test=test, chosen=v.Tensor() as chosen, otherwise=v.Tensor() as otherwise):
                return v.Either(test, self.named(chosen, name, into), self.named(otherwise, name, into))
            case v.Output(tensor=tensor):
                return v.Output(self.named(tensor, name, into))
            case tuple():
                return tuple(self.named(each, f"{name}_{number}", into) for number, each in enumerate(value))
        return value

    def condition(self, node: ast.If, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        test = self.truth(self.evaluate(node.test))
        if isinstance(test, bool):
            return self.statements(node.body if test else node.orelse, into)
        self.kept.append(test)
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise) and not node.orelse:
            self.raised(test, node.body[0], into)
            return None
        first = node.body[0]
        if self.depth > 0 and isinstance(first, ast.Return) and first.value is None and not node.orelse:
            return self._skipping(test, into, rest)
        if self.depth > 0 and isinstance(node.body[-1], ast.Return):
            return self._early(node, test, into, rest)
        if len(node.body) == 1 and isinstance(node.body[0], ast.Continue) and not node.orelse:
            return self._skipping(test, into, rest)
        before = dict(self.names)
        states = []
        bodies: list[list[cpp.Stmt]] = []
        for branch, facts in ((node.body, test.facts), (node.orelse, self.facts_if_false.get(id(test), ()))):
            self.names = dict(before)
            body: list[cpp.Stmt] = []
            assumed, possible, holds = self.assuming(facts), self.possible, self.holds
            self.holds = holds | {
                text_of(test.expr): branch is node.body,
                text_of(opposite(test.expr)): branch is not node.body,
            }
            self.possible = self.narrowed_to(test, branch is node.body)
            ended = self.statements(branch, body)
            self.restore(assumed)
            self.possible, self.holds = possible, holds
            if ended is not None and self.depth > 0:
                raise DraftError(self.place(node), "a return within a condition of a helper is not translated")
            states.append(None if ended is not None else self.names)
            bodies.append(body)
        into.append(cpp.If(test.expr, bodies[0], bodies[1]))
        alive = [state for state in states if state is not None]
        if not alive:
            return Returned(None)
        self.names = alive[0]
        if len(alive) == 2:
            for name in {*alive[0], *alive[1]}:
                if alive[0].get(name) is not alive[1].get(name):
                    self.names[name] = _Different()
        return None

    def _early(self, node: ast.If, test: v.Number, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned:
        """``if a: return x`` and what follows, in a helper: a choice."""
        values: list[Any] = []
        bodies: list[list[cpp.Stmt]] = []
        names = dict(self.names)
        for branch, facts in ((node.body, test.facts), (node.orelse or rest, self.facts_if_false.get(id(test), ()))):
            body: list[cpp.Stmt] = []
            assumed = self.assuming(facts)
            done = self.statements(branch, body)
            self.restore(assumed)
            self.names = dict(names)
            if done is None:
                raise DraftError(self.place(node), "a helper that returns by some ways only is not translated")
            values.append(done.value)
            bodies.append(body)
        self.into = into
        if not any(bodies):
            return Returned(self.chosen(test, values[0], values[1], node))
        first, second = values
        if not isinstance(first, v.Tensor) or not isinstance(second, v.Tensor):
            raise DraftError(self.place(node), "an early return of this value is not translated", "return a choice")
        own = cpp.Name(self.fresh("chosen"))
        for body, value in zip(bodies, values, strict=True):
            body.append(cpp.Assign(own, "=", value.expr))
        into.append(cpp.Declare("Tensor", [own.text]))
        into.append(cpp.If(test.expr, bodies[0], bodies[1]))
        dtypes = self._either(test, first.dtypes, second.dtypes)
        same = first.dimensions == second.dimensions
        return Returned(v.Tensor(own, dtypes, first.dimensions if same else None))

    def _skipping(self, test: v.Number, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        """``if a: continue`` in a loop that is written out: what follows is done unless a."""
        body: list[cpp.Stmt] = []
        assumed = self.assuming(self.facts_if_false.get(id(test), ()))
        self.statements(rest, body)
        self.restore(assumed)
        into.append(cpp.If(opposite(test.expr), body, []))
        return Returned(None)

    def raised(self, test: v.Number, node: ast.Raise, into: list[cpp.Stmt]) -> None:
        problem = node.exc
        if not (
            isinstance(problem, ast.Call) and self.evaluate(problem.func) is RuntimeError and len(problem.args) == 1
        ):
            raise DraftError(self.place(node), "only RuntimeError of one message is raised by a binding")
        message = self.evaluate(problem.args[0])
        parts = _merged(message.parts if isinstance(message, v.Text) else (message,))
        holds = opposite(test.expr)
        into.append(cpp.Run(cpp.CallTo("trifold::check", (holds, *(self.message_part(each) for each in parts)))))
        self.learn(self.facts_if_false.get(id(test), ()))

    def message_part(self, part: str | cpp.Expr) -> cpp.Expr:
        if isinstance(part, cpp.Expr):
            return part
        text = part.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return cpp.Name(f'"{text}"')

    def loop(self, node: ast.For, into: list[cpp.Stmt]) -> Returned | None:
        values = self.evaluate(node.iter)
        if not isinstance(values, tuple):
            raise DraftError(self.place(node), "a loop whose length a call decides is not translated here")
        if any(isinstance(each, ast.Return) for each in ast.walk(node)):
            raise DraftError(self.place(node), "a return within a loop is not translated")
        for value in values:
            self.assign(node.target, value, into)
            self.statements(node.body, into)
        return None

    def learn(self, facts: tuple[v.Fact, ...]) -> None:
        for fact in facts:
            if fact.dtypes is not None:
                self.set_dtypes(fact.tensor, fact.dtypes)
            if fact.sizes is not None and fact.tensor.dtypes is None:
                self.set_sizes(fact.tensor, fact.sizes)
            if fact.dimensions is not None:
                for each in (fact.tensor, *fact.tensor.same_shape):
                    each.dimensions = fact.dimensions
            if fact.given:
                self.give(fact.tensor)

    def set_dtypes(self, tensor: v.Tensor, dtypes: v.Dtypes) -> None:
        if self.key is None and len(dtypes) > 1:
            self.key, self.key_dtypes = tensor, dtypes
            self.expect_earlier(tensor)
        tensor.known = dtypes * len(self.key_dtypes or (0,)) if len(dtypes) == 1 else dtypes

    def expect_earlier(self, key: v.Tensor) -> None:
        for name, tensor in self.arguments.items():
            known = self.earlier.get(name)
            if known is None or tensor is key or not isinstance(tensor, v.Tensor) or not tensor.present:
                continue
            if tensor.dtypes is not None:
                continue
            if known.dtypes is None or len(known.dtypes) != len(self.key_dtypes) or known.dtypes == self.key_dtypes:
                continue
            dtype = self.dtype_code(v.DtypeOf(known.dtypes), ast.Constant(None))
            test = cpp.Infix("==", call("trifold::dtype_code", tensor.expr), dtype, type=v.BOOL)
            message = f"{self.function.__name__}: {name} must be of the dtype that the forward function gives it, not "
            words = cpp.Name(f"trifold::Dtype{{{text_of(tensor.expr)}}}")
            self.into.append(cpp.Run(cpp.CallTo("trifold::check", (test, self.message_part(message), words))))
            tensor.known = known.dtypes
            tensor.dimensions = tensor.dimensions or known.dimensions

    # --------------------------------------------------------------------------------------------- values

    def evaluate(self, node: ast.expr) -> Any:
        value = super().evaluate(node)
        if isinstance(value, _Different):
            raise DraftError(
                self.place(node), "this has another value after each branch of a condition", "choose by an expression"
            )
        return value

    # --------------------------------------------------------------------------------------------- calls

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
        from trifold.draft.host_functions import HANDLERS  # which are functions of this class

        handler = HANDLERS.get(function) if not isinstance(function, v.Local) else None
        if handler is not None:
            return _with_dtype_of(handler(self, arguments, keywords, node), arguments)
        if isinstance(function, v.Local):
            return self.inlined(function.tree, self.frames[-1], function.names, {}, arguments, keywords, node)
        if isinstance(function, FunctionType):
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
        raise DraftError(self.place(node), f"{name} in a launch function is not translated")

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
        """What a helper does, written where it is called."""
        if self.depth > 12:
            raise DraftError(self.place(node), "helpers that call each other are not translated")
        signature = tree.args
        plain = [each.arg for each in signature.args]
        bound: dict[str, Any] = {**defaults, **dict(zip(plain, arguments, strict=False))}
        if signature.vararg is not None:
            bound[signature.vararg.arg] = tuple(arguments[len(plain) :])
        known = {*plain, *(each.arg for each in signature.kwonlyargs)}
        if signature.kwarg is not None:
            bound[signature.kwarg.arg] = {k: w for k, w in keywords.items() if k not in known}
        bound |= {k: w for k, w in keywords.items() if k in known}
        saved = self.names, self.globals, self.frames
        self.names, self.frames = {**names, **bound}, [*self.frames, frame]
        if outer is not None:
            self.globals = outer | vars(__import__("builtins"))
        self.depth += 1
        into = self.into
        try:
            done = self.statements(tree.body, into)
        finally:
            self.depth -= 1
            self.names, self.globals, self.frames = saved
            self.into = into
        return None if done is None else done.value

    def method(self, method: v.Method, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        owner, name = method.owner, method.name
        if isinstance(owner, v.Tensor):
            from trifold.draft.host_tensors import METHODS  # which are functions of this class

            found = METHODS.get(name)
            if found is None:
                raise DraftError(self.place(node), f"Tensor.{name} is not translated in a launch function")
            return found(self, owner, arguments, keywords, node)
        if isinstance(owner, v.Number):
            bits = cpp.CallTo("trifold::bit_length", (owner.expr,), type=v.INT, interval=(0, 63))
            return v.Number(bits, v.INT, (0, 63))
        if isinstance(owner, v.Text) and name == "removeprefix" and owner.parts and owner.parts[0] == arguments[0]:
            return v.Text(owner.parts[1:])
        if isinstance(owner, v.Shape) and name == "numel":
            return self.product(owner, node)
        if isinstance(owner, str):
            return getattr(owner, name)(*arguments, **keywords)
        raise DraftError(self.place(node), f".{name} is not translated in a launch function")


def _merged(parts: Sequence[str | cpp.Expr]) -> list[str | cpp.Expr]:
    """A message with neighbouring texts joined."""
    joined: list[str | cpp.Expr] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        else:
            joined.append(part)
    return joined


def _defaults(function: FunctionType) -> dict[str, Any]:
    return {
        name: each.default
        for name, each in inspect.signature(function).parameters.items()
        if each.default is not inspect.Parameter.empty
    }


def _with_dtype_of(made: Any, origins: Sequence[Any]) -> Any:
    """A tensor whose dtype is not known yet has that of the one that it is made of."""
    if isinstance(made, v.Tensor) and made.known is None and made.like is None:
        made.like = next((each for each in origins if isinstance(each, v.Tensor) and each is not made), None)
    return made


def _precision(function: v.Either) -> v.Precision | None:
    """The float type of NumPy's that the key's dtype chooses; None: it is none."""
    known = function.test.of_dtype
    if (function.chosen, function.otherwise) != (np.float64, np.float32) or known is None:
        return None
    return v.Precision(function.test.expr, tuple(types.float64 if each else types.float32 for each in known))


def _symbolic(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_symbolic(each) for each in value)
    return isinstance(value, (v.Number, v.Tensor, v.Shape, v.Text, v.DtypeOf, v.Output, v.DeviceOf))
