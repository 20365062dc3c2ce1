"""Lists of tensors, which are arguments or results of a launch function, and what a loop over them runs over."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import Any

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host_cpp import call, infix, text_of
from trifold.draft.host_numbers import HostNumbers
from trifold.draft.list_checks import loop_over
from trifold.draft.refusal import DraftError


class HostLists(HostNumbers):
    """A base class of the executor."""

    result_lists: frozenset[str]  # the variables that are returned as lists of tensors

    def statement(self, node: ast.stmt, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Any:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any, into: list[cpp.Stmt]) -> None:
        raise NotImplementedError

    def in_list_of_results(self, node: ast.stmt, into: list[cpp.Stmt]) -> bool:
        """Execute a statement that makes a list of results, or adds a tensor to it; returns whether it is one."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in self.result_lists:
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in self.result_lists:
                pass
            case _:
                return False
        match value:
            case ast.List(elts=[ast.Starred(value=ast.Name(id=same)), *added]) if same == name:
                tensors = self.names[name]
            case ast.List(elts=added):
                own = cpp.Name(self.fresh(name))
                into.append(cpp.Declare("std::vector<Tensor>", [own.text]))
                tensors = self.names[name] = v.Tensors(name, own)
            case ast.ListComp(elt=element, generators=[of]):
                for statement in _as_loop(name, element, of, value):
                    self.statement(statement, into, ())
                return True
            case _:
                return False
        for each in added:
            self._add(tensors, self.evaluate(each), each, into)
        return True

    def _add(self, tensors: v.Tensors, value: Any, node: ast.expr, into: list[cpp.Stmt]) -> None:
        if not isinstance(value, v.Tensor):
            raise DraftError(self.place(node), "only a tensor is added to a list of results", "add it to another list")
        into.append(cpp.Run(call(f"{tensors.expr.text}.push_back", value.expr)))
        before = tensors.added
        if before is None:
            tensors.added = value
        elif (before.dtypes, before.dimensions) != (value.dtypes, value.dimensions):
            tensors.added = v.Tensor(value.expr, strided=True)
        else:
            dense, strided = before.dense and value.dense, before.strided or value.strided
            tensors.added = dataclasses.replace(value, dense=dense, strided=strided, memory=None)
            if before.memory is not None and value.memory is not None:
                tensors.added.memory = before.memory | value.memory

    def lists_in(self, node: ast.expr) -> list[v.Tensors]:
        """The lists of tensors in ``xs``, ``zip(xs, ys)`` or ``enumerate(xs)``, which may contain one another, and in a
        ``zip`` lists of numbers; empty if this is something else."""
        match node:
            case ast.Name(id=name):
                value = self.names.get(name)
                return [value] if isinstance(value, v.Tensors) else []
            case ast.Call(func=ast.Name() as function, args=arguments):
                parts = [self.lists_in(each) for each in arguments]
                called = self.evaluate(function) if any(parts) else None
                if called not in (zip, enumerate):
                    return []
                plain = not node.keywords or (called is zip and [each.arg for each in node.keywords] == ["strict"])
                known = all(part or self._numbers_of(each) for part, each in zip(parts, arguments, strict=True))
                if not plain or not known or (called is enumerate and len(parts) > 1):
                    raise DraftError(
                        self.place(node),
                        "this loop over lists of tensors is not translated",
                        "write for x, y in zip(xs, ys), or for k, x in enumerate(xs)",
                    )
                return [each for part in parts for each in part]
        return []

    def _numbers_of(self, node: ast.expr) -> dict[str, v.Sizes | v.Floats]:
        """The lists of numbers in what a loop over lists of tensors runs over, by name."""
        match node:
            case ast.Name(id=name) if isinstance(value := self.names.get(name), v.Sizes | v.Floats):
                return {name: value}
            case ast.Call(args=arguments):
                return {name: each for part in arguments for name, each in self._numbers_of(part).items()}
        return {}

    def is_strict(self, node: ast.expr) -> bool:
        """Whether the lists must have one length."""
        return any(isinstance(each, ast.keyword) and self.evaluate(each.value) is True for each in ast.walk(node))

    def common_length(self, node: ast.expr, lists: Sequence[v.Tensors], into: list[cpp.Stmt]) -> v.Number:
        """The number of iterations of a loop over the lists: the least of their lengths, which ``strict=True`` requires
        to be one."""
        every = {**{each.name: each for each in lists}, **self._numbers_of(node)}
        first, *others = [self.length(each) for each in every.values()]
        strict = self.is_strict(node)
        for name, each in list(every.items())[1:] if strict else ():
            one, other = (call(f"{text_of(of.expr)}.size") for of in (lists[0], each))
            words = f"{self.function.__name__}: {lists[0].name} and {name} must have the same length"
            same = cpp.Infix("==", one, other, type=v.BOOL)
            check = cpp.Run(call("trifold::check", same, self.message_part(words)))
            if check not in self.body:
                into.append(check)
        if strict or not others:
            return first
        lengths: tuple[cpp.Expr, ...] = (first.expr, *(each.expr for each in others))
        if len(lengths) > 2:
            lengths = (cpp.Braces(lengths),)
        least = v.Number(cpp.CallTo("std::min<int64_t>", lengths, type=v.INT, interval=v.SIZE), v.INT, v.SIZE)
        return self.named(least, "count", into)  # type: ignore[no-any-return]

    def sizes_of_tensors(self, lists: list[v.Tensors], one: ast.comprehension, element: ast.expr) -> v.Sizes:
        """A number for each tensor, as a list that a loop fills before the statement."""
        own = cpp.Name(self.fresh("sizes"))
        self.into.append(cpp.Declare("std::vector<int64_t>", [own.text]))
        size = self.common_length(one.iter, lists, self.into)
        counter = cpp.Name(self.fresh("k"), type=v.INT, interval=v.SIZE)
        before, into, known = dict(self.names), self.into, self.knowledge()
        body: list[cpp.Stmt] = []
        self.into = body
        names = frozenset(each.name for each in lists)
        self.assign(one.target, self.value_in_loop(one.iter, one.target, counter, names, body), body)
        condition = self.logical(True, one.ifs) if one.ifs else True
        filled = body if condition is True else []
        self.into = filled
        value = v.number(self.evaluate(element))
        if value.type != v.INT:
            raise DraftError(
                self.place(element), "a list of other numbers than integers is not translated", "use sizes"
            )
        filled.append(cpp.Run(call(f"{own.text}.push_back", value.expr)))
        if filled is not body:
            body.append(cpp.If(v.number(condition).expr, filled, []))
        self.names, self.into = before, into
        self.know(known)
        into.append(counting(counter, size, body))
        return v.Sizes(own, listed=True)

    def value_in_loop(
        self, node: ast.expr, target: ast.expr, counter: cpp.Name, names: frozenset[str], into: list[cpp.Stmt]
    ) -> Any:
        """What an iteration of a loop over :meth:`lists_in`, of these ``names``, assigns to its target."""
        if isinstance(node, ast.Name):
            of = self.names[node.id]
            if isinstance(of, v.Sizes | v.Floats):
                return self.element(of, v.Number(counter, v.INT, v.SIZE))
            return self._element(of, target, counter, names, into)
        assert isinstance(node, ast.Call)
        targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        if self.evaluate(node.func) is enumerate:
            values = [v.Number(counter, v.INT, v.SIZE)] if len(targets) == 2 else []
            targets = targets[1:]
        else:
            values = []
        if len(targets) != len(node.args):
            raise DraftError(self.place(target), "this loop variable is not translated", "write a name for each list")
        parts = zip(node.args, targets, strict=True)
        return (*values, *(self.value_in_loop(of, each, counter, names, into) for of, each in parts))

    def _element(
        self,
        tensors: v.Tensors,
        target: ast.expr,
        counter: cpp.Name,
        names: frozenset[str],
        into: list[cpp.Stmt],
    ) -> v.Tensor:
        """The list's tensor of this iteration, as a variable: another one in a loop within one over the same list, and
        in a loop over tensors that no loop checked."""
        wanted = target.id if isinstance(target, ast.Name) else "x"
        known = tensors.is_known_in(names)
        element = tensors.element if known else None
        own = cpp.Name(self.fresh(wanted)) if element is None else element.expr
        if not known:
            element = self.from_list(tensors, own, counter.text)
        elif element is None and tensors.added is not None:
            element = tensors.element = dataclasses.replace(tensors.added, expr=own, like=tensors.added, same_shape=[])
        elif element is None:
            element = tensors.element = v.Tensor(own, strided=True, memory=v.of_argument(tensors.name))
        into.append(cpp.Declare("const Tensor&", [text_of(own)], cpp.Index(tensors.expr, (counter,))))
        return element


def counting(counter: cpp.Name, size: v.Number, body: list[cpp.Stmt]) -> cpp.For:
    """A loop over the places of lists."""
    test = infix("<", v.Number(counter, v.INT), size, v.BOOL)
    step = cpp.Assign(counter, "+=", cpp.Literal("1", 1))
    return cpp.For("int64_t", counter.text, cpp.Literal("0", 0), test.expr, step, body)


def lists_returned(tree: ast.FunctionDef) -> frozenset[str]:
    """The variables that a function returns."""
    values = (each.value for each in ast.walk(tree) if isinstance(each, ast.Return))
    return frozenset(value.id for value in values if isinstance(value, ast.Name))


def _as_loop(name: str, element: ast.expr, of: ast.comprehension, node: ast.expr) -> list[ast.stmt]:
    """``name = [element for ...]`` as a loop that adds each element."""
    loop = loop_over(of, _assigned(name, [ast.Starred(ast.Name(name, ast.Load())), element]))
    return [ast.fix_missing_locations(ast.copy_location(each, node)) for each in (_assigned(name, []), loop)]


def _assigned(name: str, elements: list[ast.expr]) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], ast.List(elements, ast.Load()))
