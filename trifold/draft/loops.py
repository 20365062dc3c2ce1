"""Loops, for :class:`trifold.draft.builder.Builder`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trifold.draft import tree as t
from trifold.draft.folding import truth
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import Source
from trifold.draft.targets import Targets

Names = dict[str, t.Version]


@dataclass
class _Counted:
    """A loop over several sequences, as a loop over the indices of their elements."""

    index: ast.Name | None = None  # the variable that is the index
    # other variables that count, and their start values
    numbers: list[tuple[ast.expr, ast.expr | None]] = field(default_factory=list)
    sequences: list[ast.Name] = field(default_factory=list)
    targets: list[ast.expr] = field(default_factory=list)  # the targets of each sequence's element

    def items(self, index: ast.Name) -> Iterator[tuple[ast.expr, ast.expr]]:
        """Assignments at the beginning of an iteration."""
        for target, start in self.numbers:
            own = _reading(index, target)
            yield target, own if start is None else ast.copy_location(ast.BinOp(start, ast.Add(), own), start)
        for sequence, target in zip(self.sequences, self.targets, strict=True):
            item = ast.Subscript(_reading(sequence, target), _reading(index, target), ast.Load())
            if isinstance(target, ast.Tuple):  # the elements of a row
                for number, each in enumerate(target.elts):
                    part = ast.copy_location(ast.Constant(number), target)
                    row = ast.copy_location(item, target)
                    yield each, ast.copy_location(ast.Subscript(row, part, ast.Load()), target)
            else:
                yield target, ast.copy_location(item, target)


def _columns(node: ast.expr, target: ast.expr) -> list[tuple[ast.expr, ast.expr]] | None:
    """``for a, b in ((1, 2), (3, 4))`` as a loop over (1, 3) and (2, 4): each variable, and its values."""
    if not isinstance(node, ast.Tuple) or not isinstance(target, ast.Tuple):
        return None
    rows = [each.elts for each in node.elts if isinstance(each, ast.Tuple)]
    if not rows or len(rows) < len(node.elts) or {len(row) for row in rows} != {len(target.elts)}:
        return None
    columns = [ast.copy_location(ast.Tuple(list(column), ast.Load()), node) for column in zip(*rows, strict=True)]
    return list(zip(target.elts, columns, strict=True))


def _is_row(name: str, body: list[ast.stmt]) -> bool:
    """Whether a variable is an array: a loop runs over it, or an element of it is read or written."""
    for node in (each for statement in body for each in ast.walk(statement)):
        match node:
            case ast.For(iter=ast.Name(id=of)) | ast.Subscript(value=ast.Name(id=of)) if of == name:
                return True
    return False


def _reading(name: ast.Name, at: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(name.id, ast.Load()), at)


class Loops(Targets):
    """A base class of the builder."""

    source: Source
    versions: list[t.Version]
    names: Names | None
    leaving: list[tuple[list[Names], list[Names]]]

    def _join(self, arriving: list[Names | None], place: Place, at: t.Stmt) -> None:
        raise NotImplementedError

    def _block(self, statements: list[ast.stmt]) -> list[t.Stmt]:
        raise NotImplementedError

    def _while(self, node: ast.While, place: Place) -> list[t.Stmt]:
        heads = self._heads(t.assigned_names(node.body), place)
        test = self._expression(node.test)
        built = t.While(place, node.test.end_lineno or node.lineno, test, [], [])
        forever = truth(test) is True
        self._loop(built, heads, node.body, node.orelse, place, ends=not forever)
        return [built]

    def _for(self, node: ast.For, place: Place) -> list[t.Stmt]:
        if self._is_counted(node):
            return self._for_counted(node, place)
        assert isinstance(node.target, ast.Name)
        last = node.iter.end_lineno or node.lineno
        built: t.ForRange | t.ForTuple
        values = self._expression(node.iter)
        if isinstance(values, t.Call) and values.function is range:
            built = t.ForRange(place, last, values.arguments, [], [])
        else:
            if isinstance(values, t.TupleOf) and values.name is not None:  # values, not TILE_0
                values = replace(values, elements=[t.unnamed(each) for each in values.elements])
            built = t.ForTuple(place, last, values, [], [])
        return self._for_built(built, node, node.target.id, place)

    def _for_built(self, built: t.ForRange | t.ForTuple, node: ast.For, name: str, place: Place) -> list[t.Stmt]:
        heads = self._heads(t.assigned_names([node.target, *node.body, *node.orelse]), place)
        before = dict(self.names or {})
        version = self._version(name, place)
        if isinstance(built, t.ForRange):
            version.counts = built
        else:
            version.runs_over = built
        built.version = version
        self._loop(built, heads, node.body, node.orelse, place, ends=True, after=before)
        return [built]

    # ------------------------------------------------------------------------------- loops over several sequences

    def _is_counted(self, node: ast.For) -> bool:
        """Whether a loop needs an index: over enumerate or zip, tuples that are unpacked, or rows of an array."""
        if not isinstance(node.target, ast.Name) or self._called_with(node.iter) is not None:
            return True
        return not isinstance(node.iter, ast.Call) and _is_row(node.target.id, node.body)

    def _called_with(self, node: ast.expr) -> tuple[Any, ast.Call] | None:
        """``enumerate`` or ``zip``, and its call."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in self.local:
            function = self.source.value_of(node.func)
            if function is enumerate or function is zip:
                return function, node
        return None

    def _for_counted(self, node: ast.For, place: Place) -> list[t.Stmt]:
        """The loop as one over indices: ``for i in range(len(x)): v = x[i]``."""
        before: list[t.Stmt] = []
        counted = _Counted()
        assigned = t.assigned_names([node.target, *node.body])
        self._sequences(node.iter, node.target, counted, assigned, before)
        if not counted.sequences:
            raise DraftError(place, "a loop over nothing is not translated", "write the sequences out")
        index = counted.index or self._new_name("place", node.target)
        lengths = [self._length_of(each) for each in counted.sequences]
        known = {each.value for each in lengths if isinstance(each, t.Constant)}
        end = lengths[0]
        if len(known) == 1 and all(isinstance(each, t.Constant) for each in lengths):
            lengths = lengths[:1]
        if len(lengths) > 1:
            end = t.Call(place, min, lengths, {})
        body: list[ast.stmt] = []
        for target, value in counted.items(index):
            body.append(ast.copy_location(ast.Assign([target], value), node.target))
        counting = ast.copy_location(ast.For(index, node.iter, [*body, *node.body], node.orelse), node)
        built = t.ForRange(place, node.iter.end_lineno or node.lineno, [end], [], [])
        return [*before, *self._for_built(built, counting, index.id, place)]

    def _sequences(
        self, node: ast.expr, target: ast.expr, counted: _Counted, assigned: set[str], before: list[t.Stmt]
    ) -> None:
        """Record what a target of the loop is assigned in each iteration."""
        place = self.source.place(node)
        called = self._called_with(node)
        columns = _columns(node, target)
        if columns is not None:
            for own, column in columns:
                self._sequences(column, own, counted, assigned, before)
            return
        if called is None:
            counted.sequences.append(self._held_sequence(node, target, assigned, before))
            counted.targets.append(target)
            return
        function, call = called
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if function is zip and len(parts) == len(call.args) and not call.keywords:
            for each, own in zip(call.args, parts, strict=True):
                self._sequences(each, own, counted, assigned, before)
            return
        starts = [*call.args[1:], *(each.value for each in call.keywords if each.arg == "start")]
        if function is enumerate and len(parts) == 2 and call.args and len(starts) < 2:
            start = starts[0] if starts else None
            if start is None and counted.index is None and isinstance(parts[0], ast.Name):
                counted.index = parts[0]
            else:
                counted.numbers.append((parts[0], start))
            self._sequences(call.args[0], parts[1], counted, assigned, before)
            return
        raise DraftError(
            place, f"this loop over {function.__name__} is not translated", "loop over a variable for each sequence"
        )

    def _held_sequence(self, node: ast.expr, target: ast.expr, assigned: set[str], before: list[t.Stmt]) -> ast.Name:
        """A name for a sequence that the loop's body does not reassign."""
        if isinstance(node, ast.Name) and node.id not in assigned:
            return node
        wanted = f"{target.id}_values" if isinstance(target, ast.Name) else "sequence"
        name = self._new_name(f"{node.id}_before" if isinstance(node, ast.Name) else wanted, node)
        before += self._assign(name, node, self.source.place(node), node.end_lineno or node.lineno)
        return name

    def _length_of(self, node: ast.expr) -> t.Expr:
        place, measured = self.source.place(node), self._expression(node)
        if isinstance(measured, t.TupleOf) and any(isinstance(each, t.Call) for each in t.walk_expression(measured)):
            raise DraftError(place, "the length of a tuple of calls is not translated", "assign the tuple before")
        if isinstance(measured, t.Read) and isinstance(measured.version.value, t.TupleOf):
            measured = measured.version.value
        if isinstance(measured, t.TupleOf):
            return t.Constant(place, len(measured.elements))
        return t.Item(place, t.Attribute(place, measured, "shape"), [t.Constant(place, 0)])

    def _heads(self, assigned: set[str], place: Place) -> list[t.Version]:
        """Joins before a loop: variables that its body assigns have values from before the loop and from the body's
        end."""
        assert self.names is not None
        heads = []
        for name in sorted(assigned):
            version = t.Version(name, sum(other.name == name for other in self.versions), place)
            version.is_join = True
            version.sources = [self.names[name]] if name in self.names else []
            self.versions.append(version)
            self.names[name] = version
            heads.append(version)
        return heads

    def _loop(
        self,
        built: t.While | t.ForRange | t.ForTuple,
        heads: list[t.Version],
        body: list[ast.stmt],
        otherwise: list[ast.stmt],
        place: Place,
        *,
        ends: bool,
        after: Names | None = None,
    ) -> None:
        exit_names = after if after is not None else dict(self.names or {})
        self.leaving.append(([], []))
        built.body = self._block(body)
        breaks, continues = self.leaving.pop()
        for arriving in (self.names, *continues):
            for head in heads:
                if arriving is not None and head.name in arriving and arriving[head.name] is not head:
                    head.sources.append(arriving[head.name])
        for head in heads:
            head.joined_at = built
        self.names = dict(exit_names) if ends else None
        if ends and otherwise:
            built.otherwise = self._block(otherwise)
        self._join([self.names, *breaks], place, built)
