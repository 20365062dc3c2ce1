"""A launch function of a prototype as an operator: its schema, and the names of its results."""

from __future__ import annotations

import ast
import inspect
import itertools
import typing
from collections import Counter
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import torch

import trifold.prototype
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import function_tree, with_positional_parameters, without_none
from trifold.draft.tree import assigned_names

_SIMPLE = {
    torch.Tensor: "Tensor",
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    torch.dtype: "ScalarType",
    torch.device: "Device",
    list[int]: "int[]",
    list[float]: "float[]",
    list[torch.Tensor]: "Tensor[]",
}


class LaunchFunction:
    """A launch function's source and annotations.

    Attributes:
        returned_argument: see :func:`returned_argument`; the operator then has no result.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.name = function.__name__
        tree, self._before = function_tree(function)
        self.tree = with_positional_parameters(tree)
        hints = typing.get_type_hints(function)
        self.parameters = {each.arg: self._type(hints.get(each.arg), each.arg) for each in self.tree.args.args}
        self.results = self._results(hints.get("return"))
        self.result_names = self._result_names()
        self.written = written_arguments(function, self.tree)
        self.returned_argument = returned_argument(function, self.tree)
        if self.returned_argument:
            self.results, self.result_names = (), ()
        if not self.results and not self.written:
            raise DraftError(
                self.place(self.tree),
                f"{self.name} returns nothing, and none of its arguments is passed to output()",
                "return a tensor, or pass what it writes to output(...)",
            )

    def place(self, node: ast.AST) -> Place:
        return Place(inspect.getsourcefile(self.function) or "?", getattr(node, "lineno", 1) + self._before)

    def _type(self, hint: Any, name: str) -> str:
        inner, optional = without_none(hint)
        if inner not in _SIMPLE:
            raise DraftError(
                self.place(self.tree),
                f"{self.name}'s parameter {name} has no type of a schema",
                "annotate it as Tensor, int, float, bool, str, list[Tensor], list[int], list[float], torch.dtype or "
                "torch.device, or one of them | None",
            )
        return _SIMPLE[inner] + ("?" if optional else "")

    def _results(self, hint: Any) -> tuple[str, ...]:
        if hint is type(None):
            return ()
        if hint == list[torch.Tensor]:
            return ("Tensor[]",)
        parts = typing.get_args(hint) if typing.get_origin(hint) is tuple else (hint,)
        if not all(part is torch.Tensor for part in parts):
            raise DraftError(
                self.place(self.tree),
                "the result is not annotated as Tensor, a tuple or list of them, or None",
                "write -> Tensor, -> tuple[Tensor, Tensor], -> list[Tensor] or -> None",
            )
        return ("Tensor",) * len(parts)

    def _result_names(self) -> tuple[str, ...]:
        """The names of the last return's values; "" for a value that is not a variable."""
        returns = [node for node in ast.walk(self.tree) if isinstance(node, ast.Return) and node.value is not None]
        if not returns:
            return ()
        value = max(returns, key=lambda node: node.lineno).value
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        return tuple(part.id if isinstance(part, ast.Name) else "" for part in parts)

    @property
    def schema(self) -> str:
        marks = {name: f"({chr(ord('a') + number)}!)" for number, name in enumerate(self.written)}
        types = (f"{kind[:6]}{marks[n]}{kind[6:]}" if n in marks else kind for n, kind in self.parameters.items())
        arguments = ", ".join(f"{kind} {name}" for kind, name in zip(types, self.parameters, strict=True))
        names = itertools.chain(self.result_names, itertools.repeat(""))
        results = [f"{kind}{marks.get(name, '')}" for kind, name in zip(self.results, names, strict=False)]
        returned = results[0] if len(results) == 1 else f"({', '.join(results)})"
        return f"{self.name}({arguments}) -> {returned}"


def written_arguments(function: FunctionType, tree: ast.FunctionDef) -> tuple[str, ...]:
    """Arguments that are passed to output(), directly or as a view: ``output(rows(x))``; or of which an element is, in
    a loop over them."""
    hints = typing.get_type_hints(function)
    names = [each.arg for each in tree.args.args]
    lists = [name for name in names if hints.get(name) == list[torch.Tensor]]
    outputs, elements = set(), _elements_of_lists(tree, lists)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _global(function, node.func) is trifold.prototype.output:
            passed = node.args[0]
            while (viewed := _viewed(passed)) is not None:
                passed = viewed
            outputs |= {elements.get(passed.id, passed.id)} if isinstance(passed, ast.Name) else set()
    return tuple(name for name in names if name in outputs - assigned_names(tree.body))


def _global(function: FunctionType, node: ast.expr) -> Any:
    return function.__globals__.get(node.id) if isinstance(node, ast.Name) else None


def returned_argument(function: FunctionType, tree: ast.FunctionDef) -> str | None:
    """The argument that each return of the function returns and the function writes into; None if there is none.

    torch.compile takes no operator that returns an argument, so the op's Python function returns it.
    """
    if typing.get_type_hints(function).get("return") is not torch.Tensor:
        return None
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    names = {value.id if isinstance(value, ast.Name) else "" for value in values}
    return names.pop() if len(names) == 1 and names <= set(written_arguments(function, tree)) else None


def return_nothing(tree: ast.FunctionDef) -> None:
    """Make the function one without a result."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Return):
            node.value = None
    if isinstance(tree.body[-1], ast.Return) and len(tree.body) > 1:
        del tree.body[-1]


def _elements_of_lists(tree: ast.FunctionDef, lists: Sequence[str]) -> dict[str, str]:
    """For each variable that is always a tensor of one of the ``lists``, its name: p for ``for p in ps``, ``p, q`` for
    ``in zip(ps, qs)``, ``k, p`` for ``in enumerate(ps)``, and ``p = ps[k]``."""
    stores = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in ast.walk(tree):
        match node:
            case ast.For(target=target, iter=values):
                pairs.append((target, values))
            case ast.Assign(targets=[target], value=ast.Subscript(value=values)):
                pairs.append((target, values))
    found: Counter[tuple[str, str]] = Counter()
    while pairs:
        match pairs.pop():
            case ast.Name(id=name), ast.Name(id=of) if of in lists:
                found[name, of] += 1
            case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=parts):
                pairs += zip(targets, parts, strict=False)
            case ast.Tuple(elts=[_, target]), ast.Call(func=ast.Name(id="enumerate"), args=[of_all, *_]):
                pairs.append((target, of_all))
    return {name: of for (name, of), times in found.items() if times == stores[name]}


def _viewed(node: ast.expr) -> ast.expr | None:
    """The expression of which this one is a view: x of rows(x), x[0], x.view(-1) and x.T."""
    match node:
        case ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)) | ast.Attribute(value=inner):
            return inner
        case ast.Call(args=[inner, *_]):
            return inner
    return None
