"""Loops of a launch function: unrolled over what is known while drafting, written as loops over what a call decides."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import operator
from collections.abc import Sequence
from typing import Any

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.array_variables import Move, in_parallel
from trifold.draft.host_branches import assign_at_end
from trifold.draft.host_calls import Jumped, Returned
from trifold.draft.host_cpp import infix, opposite
from trifold.draft.host_jumps import jumps, returns, without_jumps
from trifold.draft.host_lists import HostLists, counting
from trifold.draft.refusal import DraftError
from trifold.draft.tree import assigned_names, read_names
from trifold.draft.walk import names

#: Loops over more known numbers are loops of the binding.
_MOST_UNROLLED = 32
#: With continue, and break or return, an iteration may be written twice for each before it.
_MOST_WITH_BOTH = 6


class HostLoops(HostLists):
    """A base class of the executor."""

    turns: list[dict[str, Any]]  # for each enclosing loop of the binding, the names that it reassigns

    def loop(self, node: ast.For, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        of_helper = self.depth > 0 and returns(node.body)
        # A known number that is an index may choose among things that have no C++.
        is_index = bool(assigned_names([node.target]) & _indices(node.body))
        is_read_after = bool(assigned_names([node.target]) & read_names(rest))
        written_out = of_helper or is_index or is_read_after or not any(jumps(node.body))
        bounds = self._range(node.iter, _MOST_UNROLLED if written_out else 0)
        if bounds is not None:
            if of_helper:
                self._refuse_return(node)
            self._counted(node, bounds, into)
            return None
        if lists := self.lists_in(node.iter):
            if of_helper:
                self._refuse_return(node)
            self._over_lists(node, lists, into)
            return None
        values = self.series(self.evaluate(node.iter), node.iter)
        if not written_out and isinstance(node.target, ast.Name) and all(type(each) is int for each in values):
            self._over(node, node.target.id, values, into)
            return None
        done = self._unrolled(node, values, into, rest if of_helper else None)
        return done or (Returned(None) if of_helper else None)

    def _refuse_return(self, node: ast.For | ast.While) -> None:
        problem = "a helper that returns from a loop whose length depends on the call"
        raise DraftError(self.place(node), problem, "assign the result, and break")

    def _over(self, node: ast.For, name: str, values: Sequence[int], into: list[cpp.Stmt]) -> None:
        """A loop over known integers that may end early."""
        changing = self._changing([node], into)
        own = cpp.Name(self.fresh(name), type=v.INT, interval=(min(values), max(values)))
        before = dict(self.names)
        self.names[name] = v.Number(own, v.INT, own.interval)
        body: list[cpp.Stmt] = []
        self._turn(node, changing, before, body)
        series = cpp.Braces(tuple(v.number(each).expr for each in values), "std::initializer_list<int64_t>")
        into.append(cpp.ForEach("const int64_t", own.text, series, body))

    def _unrolled(
        self, node: ast.For, values: Sequence[Any], into: list[cpp.Stmt], rest: Sequence[ast.stmt] | None
    ) -> Returned | None:
        """The iterations one after another, and the ``rest`` of a helper that returns from one of them."""
        found = {type(each) for each in jumps(node.body)}
        if not found and rest is None:
            for value in values:
                self.assign(node.target, value, into)
                done = self.statements(node.body, into)
                if done is not None:
                    return done
            return None
        twice = ast.Continue in found and (ast.Break in found or rest is not None)
        if twice and len(values) > _MOST_WITH_BOTH:
            problem = "continue, and break or return, in a long loop over known values"
            raise DraftError(self.place(node), problem, "write it with one of them")
        following: list[ast.stmt] = []
        for number, value in reversed(list(enumerate(values))):
            # What the target is assigned has a name that no variable of Python has.
            self.names[f"{number} of {node.lineno}"] = value
            given = ast.copy_location(ast.Name(f"{number} of {node.lineno}", ast.Load()), node)
            assigned = ast.copy_location(ast.Assign([node.target], given), node)
            if ast.Break in found or rest is not None:
                following = [assigned, *without_jumps(node.body, following)]
            else:
                following = [assigned, *without_jumps(node.body, []), *following]
        done = self.statements([*following, *(rest or [])], into)
        for number in range(len(values)):
            self.names.pop(f"{number} of {node.lineno}", None)
        return done

    def _range(self, node: ast.expr, most: int) -> tuple[v.Number, v.Number, int] | None:
        """Start, stop and step of a range that depends on the call, or has more than ``most`` numbers."""
        if not isinstance(node, ast.Call) or node.keywords:
            return None
        function = self.evaluate(node.func)
        if function is reversed and len(node.args) == 1:
            inner = self._range(node.args[0], most)
            if inner is None or inner[2] != 1:
                return None
            ends = [each.expr.value if isinstance(each.expr, cpp.Literal) else each for each in inner[:2]]
            first, last = (v.number(self.binary(operator.sub, each, 1, node)) for each in ends)
            return last, first, -1
        if function is not range:
            return None
        given = self.elements(node.args)
        if all(isinstance(each, int) for each in given) and len(range(*given)) <= most:
            return None
        start, stop, step = {1: (0, *given, 1), 2: (*given, 1)}.get(len(given), given)
        if not isinstance(step, int) or step == 0:
            raise DraftError(
                self.place(node),
                "a step that is not known while drafting is not translated",
                "write a number as the step, or a while loop",
            )
        return v.number(start), v.number(stop), step

    def _counted(self, node: ast.For, bounds: tuple[v.Number, v.Number, int], into: list[cpp.Stmt]) -> None:
        start, stop, step = bounds
        if not isinstance(node.target, ast.Name):
            raise DraftError(
                self.place(node.target),
                "this loop variable is not translated",
                "write one name, and unpack it in the loop",
            )
        assigned = [self.names.get(name) for name in assigned_names([node])]
        may_change = self._is_changing(stop.expr) or any(_mentions(x, getattr(stop.expr, "text", "")) for x in assigned)
        if not isinstance(stop.expr, (cpp.Name, cpp.Literal)) or may_change:
            stop = self.held(stop, f"{node.target.id}_end", into)
        changing = self._changing([node], into)
        interval = None
        if start.interval is not None and stop.interval is not None:
            ends = (start.interval[0], stop.interval[1] - 1) if step > 0 else (stop.interval[0] + 1, start.interval[1])
            interval = min(ends), max(ends)
        name = "turn" if node.target.id == "_" else node.target.id
        counter = cpp.Name(self.fresh(name), type=v.INT, interval=interval)
        test = infix("<" if step > 0 else ">", v.Number(counter, v.INT), stop, v.BOOL)
        before = dict(self.names)
        self.names[node.target.id] = v.Number(counter, v.INT, interval)
        body: list[cpp.Stmt] = []
        self._turn(node, changing, before, body)
        by = cpp.Assign(counter, "+=" if step > 0 else "-=", cpp.Literal(str(abs(step)), abs(step)))
        into.append(cpp.For("int64_t", counter.text, start.expr, test.expr, by, body))

    def _over_lists(self, node: ast.For, lists: Sequence[v.Tensors], into: list[cpp.Stmt]) -> None:
        size = self.common_length(node.iter, lists, into)
        changing = self._changing([node], into)
        before = dict(self.names)
        counter = cpp.Name(self.fresh("k"), type=v.INT, interval=v.SIZE)
        body: list[cpp.Stmt] = []
        names = frozenset(each.name for each in lists)
        self.assign(node.target, self.value_in_loop(node.iter, node.target, counter, names, body), body)
        entered = [each for each in lists if each.is_known_in(names)]
        for each in entered:
            each.looped = True
        # What is checked of each tensor is known in later loops if all iterations reach their ends.
        whole = into is self.body and not any(jumps(node.body))
        self._turn(node, changing, before, body, [each.element for each in entered if each.element] if whole else [])
        for each in entered:
            each.looped = False
            if whole and len(lists) > 1 and not self.is_strict(node.iter):
                each.checked_with |= names
        into.append(counting(counter, size, body))

    def while_loop(self, node: ast.While, into: list[cpp.Stmt]) -> Returned | None:
        if self.depth > 0 and returns(node.body):
            self._refuse_return(node)
        changing = self._changing(node.body, into)
        before = dict(self.names)
        body: list[cpp.Stmt] = []
        self.into = body  # a test may need statements, which each iteration begins with
        test = self.truth(self.evaluate(node.test))
        breaks = any(isinstance(each, ast.Break) for each in jumps(node.body))
        endless = test is True and (breaks or returns(node.body))
        if not isinstance(test, v.Number) and not endless:
            raise DraftError(
                self.place(node),
                "a loop that never ends, or never begins, is not translated",
                "write a condition of numbers that the loop changes, or break",
            )
        if body:
            body.append(cpp.If(opposite(v.number(test).expr), [cpp.Jump("break")], []))
        head = v.number(True) if body or endless else test
        self._turn(node, changing, before, body)
        into.append(cpp.While(head.expr, body))
        return Returned(None) if endless and not breaks else None

    def _turn(
        self,
        node: ast.For | ast.While,
        changing: dict[str, Any],
        before: dict[str, Any],
        body: list[cpp.Stmt],
        of_each: Sequence[v.Tensor] = (),
    ) -> None:
        """One iteration, and the names after the loop, which knows what was checked of the tensors ``of_each``
        iteration."""
        known = self.knowledge()
        self.turns.append(changing)
        if self.statements(node.body, body) is None:
            self._assign_changed(changing, body, node)
        self.turns.pop()
        self.know(known, *([self.knowledge(of_each)] if of_each else []))
        remedy = "assign it before the loop"
        made = {name: v.Unknown(f"{name} is assigned in a loop only", remedy) for name in assigned_names([node])}
        self.names = {**made, **before, **changing}

    def jump(self, node: ast.Break | ast.Continue, into: list[cpp.Stmt]) -> Jumped:
        self._assign_changed(self.turns[-1], into, node)
        into.append(cpp.Jump("break" if isinstance(node, ast.Break) else "continue"))
        return Jumped(None)

    # --------------------------------------------------------------------------------------------- variables

    def held(self, value: v.Number, name: str, into: list[cpp.Stmt]) -> v.Number:
        """A copy of a number's current value."""
        own = cpp.Name(self.fresh(name), type=value.type, interval=value.interval)
        into.append(cpp.Declare(f"const {v.NUMBERS[value.type]}", [own.text], value.expr))
        return dataclasses.replace(value, expr=own)

    def _is_changing(self, expr: cpp.Expr) -> bool:
        return isinstance(expr, cpp.Name) and expr.text in self.changing

    def _changing(self, body: Sequence[ast.stmt], into: list[cpp.Stmt]) -> dict[str, Any]:
        """The names that the body reassigns, as variables that it may assign."""
        found: dict[str, Any] = {}
        memory = self._exchanged(assigned_names(body))
        for name in sorted(assigned_names(body) & set(self.names)):
            value = self.names[name]
            if isinstance(value, v.Tensors) and name in self.result_lists:
                continue  # the loop adds to it
            if isinstance(value, (bool, int, float)):
                value = v.number(value)
            if not isinstance(value, (v.Number, v.Tensor)) or (isinstance(value, v.Tensor) and not value.present):
                if not isinstance(value, v.Unknown):
                    problem = f"{name}, which the loop assigns, is no tensor and no number"
                    self.names[name] = v.Unknown(problem, "use two names")
                continue
            if not self._is_changing(value.expr) or self._used_elsewhere(name, value.expr):
                own = self._made_changing(name, value, into)
                if isinstance(value, v.Tensor):
                    value = dataclasses.replace(
                        value, expr=own, known=value.dtypes, same_shape=[], memory=memory.get(name)
                    )
                else:
                    value = v.Number(own, value.type)
            self.names[name] = found[name] = value
        tensors = [each for each in found.values() if isinstance(each, v.Tensor)]
        for each in tensors:  # any of these may come in its place
            each.strided = any(x.strided for x in tensors if x.dimensions == each.dimensions)
        return found

    def _exchanged(self, assigned: set[str]) -> dict[str, v.Memory]:
        """The memory of the tensors that a loop assigns, if they lie apart before it."""
        tensors = {n: x for n, x in self.names.items() if n in assigned and isinstance(x, v.Tensor)}
        outer = [_exchanges(x) if self._is_changing(x.expr) else set() for x in tensors.values()]
        if len(set(map(frozenset, outer))) > 1:
            for each in set().union(*outer):
                each.apart = False
        pairs = itertools.combinations(tensors.values(), 2)
        if any(v.overlap(a.memory, b.memory) for a, b in pairs) or any(x.memory is None for x in tensors.values()):
            return {}
        by, every = v.Exchange(), frozenset[object]().union(*(x.memory or () for x in tensors.values()))
        return {name: frozenset({v.Exchanged(by, every)}) for name in tensors}

    def _made_changing(self, name: str, value: v.Number | v.Tensor, into: list[cpp.Stmt]) -> cpp.Name:
        """A C++ variable for the value: its own if nothing else uses that, or a new one."""
        kind = "Tensor" if isinstance(value, v.Tensor) else v.NUMBERS[value.type]
        text = getattr(value.expr, "text", "")
        declared = next((each for each in into if isinstance(each, cpp.Declare) and each.names == [text]), None)
        if declared is not None and not self._used_elsewhere(name, value.expr):
            declared.type = kind
            own = cpp.Name(text, type=value.expr.type)
        else:
            own = cpp.Name(self.fresh(name), type=value.expr.type)
            into.append(cpp.Declare(kind, [own.text], value.expr))
        self.changing.add(own.text)
        return own

    def _used_elsewhere(self, name: str, expr: cpp.Expr) -> bool:
        """Whether other names, here or in a function that called this one, use this C++ variable."""
        text = getattr(expr, "text", "")
        here = [value for key, value in self.names.items() if key != name]
        return any(_mentions(each, text) for each in (*here, *(x for names in self.callers for x in names.values())))

    def _assign_changed(self, changing: dict[str, Any], body: list[cpp.Stmt], node: ast.stmt) -> None:
        """Assign the variables at the end of an iteration."""
        moves: list[tuple[cpp.Name, cpp.Expr, str]] = []
        tensors = [name for name, value in changing.items() if isinstance(value, v.Tensor)]
        if {id(self.names[name]) for name in tensors} != {id(changing[name]) for name in tensors}:
            for name in tensors:
                for each in _exchanges(changing[name]):
                    each.apart = False
        for name, value in changing.items():
            new = self.names[name]
            if new is value:
                continue
            kind = "Tensor" if isinstance(value, v.Tensor) else v.NUMBERS[value.type]
            if isinstance(value, v.Tensor):
                if not isinstance(new, v.Tensor) or not _is_like(new, value):
                    raise DraftError(
                        self.place(node),
                        f"{name} is another kind of tensor after a turn of the loop",
                        "assign it to another name",
                    )
            elif not isinstance(new, (v.Number, bool, int, float)) or v.number(new).type != value.type:
                raise DraftError(
                    self.place(node),
                    f"{name} is of another type after a turn of the loop",
                    "begin with that type, as in total = 0.0, or use two names",
                )
            moves.append((value.expr, (new if isinstance(new, v.Tensor) else v.number(new)).expr, kind))
        self.names |= changing
        texts = [(target.text, getattr(expr, "text", None)) for target, expr, _ in moves]
        swapped = [move for move, (a, b) in zip(moves, texts, strict=True) if (b, a) in texts]
        others = [move for move in moves if move not in swapped]
        if len(swapped) != 2 or any(kind == "Tensor" for _, _, kind in others):
            swapped, others = [], moves
        if len(others) == 1:
            assign_at_end(body, others[0][0], others[0][1])
        else:
            body += in_parallel([Move(cpp.Assign(a, "=", b), kind) for a, b, kind in others], self.fresh)
        if swapped:
            body.append(cpp.Run(cpp.CallTo("std::swap", swapped[0][:2])))

    def augmented(self, node: ast.AugAssign, op: Any, into: list[cpp.Stmt]) -> None:
        """``n *= 2``, of numbers."""
        old = self.evaluate(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))  # type: ignore[union-attr]
        if isinstance(old, v.Tensor):
            raise DraftError(self.place(node), "a tensor is changed in place", "launch a kernel")
        self.assign(node.target, self.binary(op, old, self.evaluate(node.value), node), into)


def _indices(body: Sequence[ast.stmt]) -> set[str]:
    """The names that are read in brackets."""
    return read_names(each.slice for node in body for each in ast.walk(node) if isinstance(each, ast.Subscript))


def _exchanges(tensor: v.Tensor) -> set[v.Exchange]:
    """The loops that exchange a tensor with others."""
    return {each.by for each in tensor.memory or () if isinstance(each, v.Exchanged)}


def _is_like(new: v.Tensor, old: v.Tensor) -> bool:
    """Whether all that is assumed about a tensor at the beginning of an iteration also holds for another one."""
    if (new.dtypes, new.dimensions) != (old.dtypes, old.dimensions) or (old.dense and not new.dense):
        return False
    return old.strided or not new.strided or new.dimensions == 1


def _mentions(value: Any, text: str) -> bool:
    """Whether a value uses this C++ variable."""
    if isinstance(value, tuple):
        return any(_mentions(each, text) for each in value)
    if isinstance(value, cpp.Expr):
        return text in names(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = (getattr(value, each.name) for each in dataclasses.fields(value) if each.name != "same_shape")
        return any(_mentions(each, text) for each in parts)
    return False
