"""Comprehensions in a launch function, over what is known while drafting, or over sizes whose number a call decides."""

from __future__ import annotations

import ast
from typing import Any

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host_cpp import call, whole_shape
from trifold.draft.host_texts import HostTexts
from trifold.draft.printer import expression
from trifold.draft.refusal import DraftError
from trifold.draft.size_lists import Change, change_of


class HostComprehensions(HostTexts):
    """A base class of the executor."""

    names: dict[str, Any]
    into: list[cpp.Stmt]

    def fresh(self, wanted: str) -> str:
        """A name for a new variable in C++."""
        raise NotImplementedError

    def size(self, tensor: v.Tensor, dimension: int) -> v.Number:
        raise NotImplementedError

    def lists_in(self, node: ast.expr) -> list[v.Tensors]:
        raise NotImplementedError

    def sizes_of_tensors(self, lists: list[v.Tensors], one: ast.comprehension, element: ast.expr) -> v.Sizes:
        raise NotImplementedError

    def comprehension(self, node: ast.GeneratorExp | ast.ListComp) -> Any:
        change = change_of(node)
        if change is not None:
            return self._changed(change, node)
        (one,) = node.generators
        if lists := self.lists_in(one.iter):
            return self.sizes_of_tensors(lists, one, node.elt)
        counted = _counted(one)
        over = self.evaluate(one.iter if counted is None else counted)
        if isinstance(over, v.Sizes) or (isinstance(over, v.Shape) and self.numbers_in(over) is None):
            each = self._of_each(over, one, node.elt)
            return each if isinstance(node, ast.GeneratorExp) else self.list_of_each(each, node)
        if one.ifs:
            raise DraftError(self.place(node), "a comprehension with if is not translated", "write it without")
        values = self.series(over, one.iter)
        before, found = dict(self.names), []
        for value in values if counted is None else enumerate(values):
            self._bind(one.target, value)
            found.append(self.evaluate(node.elt))
        self.names = before
        return tuple(found) if isinstance(node, ast.GeneratorExp) else v.Elements(found)

    def _changed(self, change: Change, node: ast.expr) -> v.Sizes:
        sizes = self.dims(self.names[change.name], node)
        index = v.number(self.evaluate(change.index)).expr
        if change.number is None:
            return v.Sizes(call("trifold::without_size", sizes, index), listed=True)
        number = v.number(self.evaluate(change.number)).expr
        return v.Sizes(call("trifold::with_size", sizes, index, number), listed=True)

    def _of_each(self, sizes: v.Sizes | v.Shape, one: ast.comprehension, element: ast.expr) -> v.OfEach:
        counted = _counted(one) is not None
        targets = one.target.elts if counted and isinstance(one.target, ast.Tuple) else [one.target]
        names = [each.id for each in targets if isinstance(each, ast.Name)]
        if len(names) != 1 + counted:
            raise DraftError(
                self.place(one.target), "this variable of a comprehension is not translated", "write names"
            )
        before, statements = dict(self.names), len(self.into)
        owns = [self.fresh(name) for name in names]
        for name, own in zip(names, owns, strict=True):
            self.names[name] = v.Number(cpp.Name(own, type=v.INT), v.INT)
        condition = self.logical(True, one.ifs) if one.ifs else True
        value = self.evaluate(element)
        self.names = before
        if len(self.into) > statements:
            problem = "what a comprehension computes for each size needs statements"
            raise DraftError(self.place(element), problem, "write a loop")
        return v.OfEach(sizes, owns[0] if counted else "", owns[-1], value, condition)

    def list_of_each(self, each: v.OfEach, node: ast.AST) -> v.Sizes:
        value = v.number(each.value)
        if value.type != v.INT:
            raise DraftError(self.place(node), "a list of other numbers than integers is not translated", "write sizes")
        kind, body = "int64_t", f"return {expression(value.expr)};"
        if each.condition is not True:
            kind = "std::optional<int64_t>"
            body = f"if ({expression(v.number(each.condition).expr)}) {body} return std::nullopt;"
        place = f"int64_t {each.place}".rstrip()
        text = f"[&]({place}, int64_t {each.name}) -> {kind} {{ {body} }}"
        return v.Sizes(call("trifold::sizes_by", self.dims(each.sizes, node), cpp.Name(text)), listed=True)

    def _bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, tuple) and len(value) == len(target.elts):
            for each, part in zip(target.elts, value, strict=True):
                self._bind(each, part)
        else:
            raise DraftError(
                self.place(target),
                "this variable of a comprehension is not translated",
                "write one name, or as many as each element has values",
            )

    def series(self, value: Any, node: ast.expr) -> tuple[Any, ...]:
        """The elements of what a loop runs over."""
        whole = whole_shape(value)
        if whole is not None and whole.dimensions is not None:
            return tuple(self.size(whole, dimension) for dimension in range(whole.dimensions))
        if isinstance(value, (tuple, list, range, dict)):
            return tuple(value)
        raise DraftError(
            self.place(node),
            "what this loop runs over is not known while drafting",
            "loop over a tuple, over range(...), or over the shape of a tensor whose x.dim() is checked",
        )


def _counted(one: ast.comprehension) -> ast.expr | None:
    """What ``enumerate`` counts in a comprehension."""
    match one.iter:
        case ast.Call(func=ast.Name(id="enumerate"), args=[over], keywords=[]):
            return over
    return None
