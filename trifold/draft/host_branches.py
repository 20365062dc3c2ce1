"""Conditions and loops of a launch function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host_calls import HostCalls, Returned
from trifold.draft.host_conditions import opposite, text_of
from trifold.draft.refusal import DraftError


class _Different:
    """A name that has another value after each branch of a condition."""


class HostBranches(HostCalls):
    """Mixed into the executor."""

    holds: dict[str, bool]

    def statement(self, node: ast.stmt, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any, into: list[cpp.Stmt]) -> None:
        raise NotImplementedError

    def fresh(self, wanted: str) -> str:
        raise NotImplementedError

    def evaluate(self, node: ast.expr) -> Any:
        value = super().evaluate(node)
        if isinstance(value, _Different):
            raise DraftError(
                self.place(node), "this has another value after each branch of a condition", "choose by an expression"
            )
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
