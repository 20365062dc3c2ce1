"""Conditions of a launch function."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.compound import assignment
from trifold.draft.host_calls import HostCalls, Jumped, Returned
from trifold.draft.host_cpp import call, opposite, string, text_of
from trifold.draft.host_expressions import as_it_is, is_dtype
from trifold.draft.host_facts import Knowledge
from trifold.draft.host_jumps import returns
from trifold.draft.host_ranges import ranges_in
from trifold.draft.list_checks import as_loops
from trifold.draft.refusal import DraftError
from trifold.draft.walk import walk

#: Of a name that has different values after the branches of a condition.
_DIFFERENT = v.Unknown("this has another value after each branch of a condition", "choose by an expression")


@dataclass(frozen=True)
class _Branches:
    """Both branches of a condition in C++, and where the statements before it are."""

    test: v.Number
    bodies: list[list[cpp.Stmt]]
    into: list[cpp.Stmt]
    node: ast.If


class HostBranches(HostCalls):
    """A base class of the executor."""

    holds: dict[str, bool]
    body: list[cpp.Stmt]
    taken: set[str]
    changing: set[str]  # C++ variables that loops assign
    other_errors: set[str]  # the exceptions that it raises, other than RuntimeError

    def statement(self, node: ast.stmt, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        raise NotImplementedError

    def fresh(self, wanted: str) -> str:
        raise NotImplementedError

    def named(self, value: Any, name: str, into: list[cpp.Stmt]) -> Any:
        raise NotImplementedError

    def evaluate(self, node: ast.expr) -> Any:
        value = super().evaluate(node)
        if isinstance(value, v.Unknown):
            raise DraftError(self.place(node), value.problem, value.remedy)
        return value

    def condition(self, node: ast.If, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        if loops := as_loops(node, lambda each: bool(self.lists_in(each))):
            for loop in loops:
                self.statement(loop, into, ())
            return None
        test = self.truth(self.evaluate(node.test))
        if isinstance(test, bool):
            return self._reached(node.body if test else node.orelse, into, rest)
        self.kept.append(test)
        match node:
            case ast.If(body=[ast.Raise() as error]):
                self.raised(test, error, into)
                return self._reached(node.orelse, into, rest)
            case ast.If(orelse=[ast.Raise() as error]):
                self.raised(self.negation(test), error, into)
                return self._reached(node.body, into, rest)
        first = node.body[0]
        if self.depth > 0 and isinstance(first, ast.Return) and first.value is None and not node.orelse:
            return self._skipping(test, into, rest)
        if self.depth > 0 and returns([node]):
            return self._early(node, test, into, rest)
        before, known = dict(self.names), self.knowledge()
        after: list[Knowledge] = []
        states: list[dict[str, Any] | None] = []
        values: list[dict[str, Any]] = []
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
            self.learn_in_branch(facts)
            ended = self.statements(branch, body)
            values.append({name: as_it_is(value) for name, value in self.names.items()})
            self.restore(assumed)
            if ended is None:
                after.append(self.knowledge(known, facts))
            self.know(known)
            self.possible, self.holds = possible, holds
            states.append(None if ended is not None else self.names)
            bodies.append(body)
        self.know(known, *after)
        alive = [state for state in states if state is not None]
        self.names = dict(alive[0]) if alive else before
        if len(alive) == 2:
            differing = sorted(n for n in {*alive[0], *alive[1]} if alive[0].get(n) is not alive[1].get(n))
            branches = _Branches(test, bodies, into, node)
            for name in differing:
                found = [each.get(name) for each in values]
                self.names[name] = self._merged(name, found, branches, alone=len(differing) == 1)
        if bodies[0]:
            into.append(cpp.If(test.expr, bodies[0], bodies[1]))
        elif bodies[1]:
            into.append(cpp.If(opposite(test.expr), bodies[1], []))
        return None if alive else Returned(None)

    def _reached(self, branch: list[ast.stmt], into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        """The only branch that goes on."""
        if self.depth > 0 and returns(branch):
            return self.statements([*branch, *rest], into) or Returned(None)
        return self.statements(branch, into)

    def _merged(self, name: str, found: list[Any], branches: _Branches, *, alone: bool) -> Any:
        """The value of a name after both branches of a condition, which gave it the values that are ``found``."""
        if all(isinstance(each, (v.Shape, v.Sizes, tuple)) for each in found):
            return self._merged_sizes(name, found, branches, alone=alone)
        if all(is_dtype(each) for each in found) and not any(branches.bodies):
            return self.named(self.chosen(branches.test, found[0], found[1], branches.node), name, branches.into)
        numbers = all(isinstance(each, (v.Number, bool, int, float)) for each in found)
        tensors = all(isinstance(each, v.Tensor) for each in found)
        if not numbers and not tensors:
            return _DIFFERENT
        made = self.chosen(branches.test, found[0], found[1], branches.node)
        if not isinstance(made, (v.Number, v.Tensor)):
            return _DIFFERENT
        bodies, into = branches.bodies, branches.into
        pairs = list(zip(bodies, found, strict=True))
        if alone and all(not body or (len(body) == 1 and _just_declared(body, each)) for body, each in pairs):
            self.taken -= {text for body, value in pairs for text in _just_declared(body, value)}
            return self.named(self._chosen_at_once(branches.test, made, found, bodies), name, into)
        # If several names differ, the value of one may use another.
        declared = [text for body, value in pairs for text in _just_declared(body, value)] if alone else []
        own = cpp.Name(declared[0] if declared else self.fresh(name), type=made.expr.type, interval=made.expr.interval)
        into.append(cpp.Declare(_kind_of(made), [own.text]))
        for body, value in pairs:
            expr = _expression_of(value)
            if alone:
                assign_at_end(body, own, expr)
            else:
                body.append(cpp.Assign(own, "=", expr))
        return dataclasses.replace(made, expr=own)

    def _merged_sizes(self, name: str, found: list[Any], branches: _Branches, *, alone: bool) -> Any:
        """Likewise, of shapes, lists and tuples: tuples of one length have a variable for each element."""
        first, second = found
        parts = [each for value in (first, second) if isinstance(value, tuple) for each in value]
        one_by_one = isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second)
        if one_by_one and not any(isinstance(part, v.Part) for part in parts):
            elements = []
            for place, pair in enumerate(zip(first, second, strict=True)):
                same = pair[0] is pair[1] or (type(pair[0]) is type(pair[1]) is int and pair[0] == pair[1])
                of_place = f"{name}_{place}"
                elements.append(pair[0] if same else self._merged(of_place, list(pair), branches, alone=False))
            return type(first)(elements) if not any(each is _DIFFERENT for each in elements) else _DIFFERENT
        if not all(isinstance(part, (v.Part, v.Number, int)) for part in parts):
            return _DIFFERENT
        own = cpp.Name(self.fresh(name))
        branches.into.append(cpp.Declare("std::vector<int64_t>", [own.text]))
        for body, value in zip(branches.bodies, found, strict=True):
            is_new = alone and isinstance(value, v.Sizes) and bool(_just_declared(body, value))
            copied = (
                call("trifold::sizes", value.expr) if isinstance(value, v.Sizes) else self.list_of(value, branches.node)
            )
            assign_at_end(body, own, value.expr if is_new else copied)
        return v.Sizes(own, getattr(first, "listed", False) or isinstance(first, v.Elements))

    def _chosen_at_once(self, test: v.Number, made: Any, found: list[Any], bodies: list[list[cpp.Stmt]]) -> Any:
        """The value as one expression that replaces both branches."""
        values = [_value_of(body, value) for body, value in zip(bodies, found, strict=True)]
        condition = test.expr
        if isinstance(condition, cpp.Prefix) and condition.operator == "!":
            condition, values = condition.operand, values[::-1]
        chosen = cpp.Ternary(condition, *values, type=made.expr.type, interval=made.expr.interval)
        return dataclasses.replace(made, expr=chosen)

    def _early(self, node: ast.If, test: v.Number, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned:
        """A condition with returns, and what follows, in a helper: a conditional expression."""
        ends: list[Returned] = []
        bodies: list[list[cpp.Stmt]] = []
        names, known = dict(self.names), self.knowledge()
        after: list[Knowledge] = []
        for branch, facts in ((node.body, test.facts), (node.orelse, self.facts_if_false.get(id(test), ()))):
            body: list[cpp.Stmt] = []
            assumed = self.assuming(facts)
            self.learn_in_branch(facts)
            done = self.statements([*branch, *rest], body)
            self.restore(assumed)
            if not isinstance(done, Jumped):
                after.append(self.knowledge(known, facts))
            self.know(known)
            self.names = dict(names)
            if done is None:
                raise DraftError(
                    self.place(node),
                    "a helper that returns by some ways only is not translated",
                    "return a value by each way, or raise RuntimeError",
                )
            ends.append(done)
            bodies.append(body)
        self.into = into
        self.know(known, *after)
        if isinstance(ends[0], Jumped) or isinstance(ends[1], Jumped):
            raising = 0 if isinstance(ends[0], Jumped) else 1
            into.append(cpp.If(opposite(test.expr) if raising else test.expr, bodies[raising], []))
            into += bodies[1 - raising]
            return ends[1 - raising]
        values = [each.value for each in ends]
        if not any(bodies):
            return Returned(self.chosen(test, values[0], values[1], node))
        numbers = all(isinstance(each, (v.Number, bool, int, float)) for each in values)
        tensors = all(isinstance(each, v.Tensor) for each in values)
        made = self.chosen(test, values[0], values[1], node) if numbers or tensors else None
        if not isinstance(made, (v.Number, v.Tensor)):
            raise DraftError(self.place(node), "an early return of this value is not translated", "return a choice")
        own = cpp.Name(self.fresh("chosen"), type=made.expr.type, interval=made.expr.interval)
        for body, value in zip(bodies, values, strict=True):
            body.append(cpp.Assign(own, "=", _expression_of(value)))
        into.append(cpp.Declare(_kind_of(made), [own.text]))
        into.append(cpp.If(test.expr, bodies[0], bodies[1]))
        return Returned(dataclasses.replace(made, expr=own))

    def _skipping(self, test: v.Number, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        """``if a: return`` in a helper without a result: what follows is executed unless a."""
        body: list[cpp.Stmt] = []
        known, facts = self.knowledge(), self.facts_if_false.get(id(test), ())
        skipped = self.knowledge(known, test.facts)
        assumed = self.assuming(facts)
        self.learn_in_branch(facts)
        self.statements(rest, body)
        self.restore(assumed)
        self.know(known, skipped, self.knowledge(known))
        into.append(cpp.If(opposite(test.expr), body, []))
        return Returned(None)

    def raised(self, test: v.Number, node: ast.Raise, into: list[cpp.Stmt]) -> None:
        given = tuple(fact for fact in test.facts if isinstance(fact, v.Given) and fact.given)
        assumed = self.assuming(given)
        written = self._message(node)
        optional = [text_of(fact.value.expr) for fact in given]
        self.restore(assumed)
        texts = [each.text for part in written for each in walk(part) if isinstance(each, cpp.Name)]
        absent = any(own in text for own in optional for text in texts)
        if absent or any(isinstance(each, cpp.CallTo) for part in written for each in walk(part)):
            # Compute the parts only in the branch: a size or an optional argument may not exist, and a size needs a
            # call of libtorch.
            into.append(cpp.If(test.expr, [cpp.Run(cpp.CallTo("trifold::fail", written))], []))
        else:
            into.append(cpp.Run(cpp.CallTo("trifold::check", (opposite(test.expr), *written))))
        self.learn(self.facts_if_false.get(id(test), ()))
        if into is self.body:  # where each call comes
            self._learn_ranges(opposite(test.expr))

    def _learn_ranges(self, test: cpp.Expr) -> None:
        """Narrow the ranges of the integers that a check bounds, unless a loop assigns them."""
        ranges = {name: each for name, each in ranges_in(test).items() if name not in self.changing}
        for value in [value for names in (self.names, *self.callers) for value in names.values()]:
            if isinstance(value, v.Number) and isinstance(value.expr, cpp.Name) and value.expr.text in ranges:
                low, high = ranges[value.expr.text]
                least, most = value.interval or (low, high)
                value.interval = max(low, least), min(high, most)
                if value.interval[0] > value.interval[1]:
                    value.interval = None  # no call comes here
                value.expr = dataclasses.replace(value.expr, interval=value.interval)

    def fail(self, node: ast.Raise, into: list[cpp.Stmt]) -> Jumped:
        """A raise after other statements of a branch."""
        into.append(cpp.Run(cpp.CallTo("trifold::fail", self._message(node))))
        return Jumped(None)

    def _message(self, node: ast.Raise) -> tuple[cpp.Expr, ...]:
        """The parts of an error's message."""
        error = node.exc
        kind = self.evaluate(error.func) if isinstance(error, ast.Call) and len(error.args) == 1 else None
        if not (isinstance(error, ast.Call) and isinstance(kind, type) and issubclass(kind, Exception)):
            raise DraftError(
                self.place(node),
                "only an exception with one message is raised by a binding",
                'write raise RuntimeError("..."), with one argument',
            )
        if kind is not RuntimeError:
            self.other_errors.add(kind.__name__)
        message = self.evaluate(error.args[0])
        parts = _merged(message.parts if isinstance(message, v.Text) else (message,))
        return tuple(self.message_part(each) for each in parts)

    def message_part(self, part: str | cpp.Expr) -> cpp.Expr:
        return part if isinstance(part, cpp.Expr) else string(part)


def _kind_of(value: v.Number | v.Tensor) -> str:
    """The C++ type of a variable for a value."""
    return "Tensor" if isinstance(value, v.Tensor) else v.NUMBERS[value.type]


def _expression_of(value: Any) -> cpp.Expr:
    """A number or tensor in C++."""
    return value.expr if isinstance(value, v.Tensor) else v.number(value).expr


def _value_of(body: list[cpp.Stmt], value: Any) -> cpp.Expr:
    """A branch's value; if the branch only declares it, its initialiser."""
    expr = _expression_of(value)
    if body:
        (declared,) = body
        assert isinstance(declared, cpp.Declare) and declared.value is not None
        expr = declared.value
    body.clear()
    return expr


def _just_declared(body: list[cpp.Stmt], value: Any) -> list[str]:
    """The name to which a branch's last statement gives a value."""
    last = body[-1] if body else None
    own = getattr(getattr(value, "expr", None), "text", None)
    return last.names if isinstance(last, cpp.Declare) and last.names == [own] else []


def assign_at_end(body: list[cpp.Stmt], target: cpp.Name, value: cpp.Expr) -> None:
    """Assign the value at the end of a branch; if the value was just declared, in place of the declaration."""
    last = body[-1] if body else None
    if isinstance(last, cpp.Declare) and isinstance(value, cpp.Name) and last.names == [value.text] and last.value:
        del body[-1]
        value = last.value
    body.append(assignment(target, value))


def _merged(parts: Sequence[str | cpp.Expr]) -> list[str | cpp.Expr]:
    """The parts of a message, with adjacent texts joined."""
    joined: list[str | cpp.Expr] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        else:
            joined.append(part)
    return joined
