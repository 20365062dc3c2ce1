"""Assignments to parts of arrays, for :class:`trifold.draft.statements.Statements`: loops over their elements."""

from __future__ import annotations

from numba import types

from trifold.draft import cpp
from trifold.draft import tree as t
from trifold.draft.arithmetic import Arithmetic, is_no_number
from trifold.draft.arrays import Array, Extent
from trifold.draft.compound import assignment
from trifold.draft.expressions import is_pure
from trifold.draft.origins import origins
from trifold.draft.records import member_type
from trifold.draft.refusal import DraftError
from trifold.draft.tree import Type
from trifold.draft.tuples import Tuples

_EXACT_IN_HALF = 2**8  # bfloat16 has eight binary digits


class Parts(Tuples):
    """A base class of the statements."""

    numbers: Arithmetic

    def _fill(self, statement: t.Store) -> list[cpp.Stmt]:
        """Assigns a number, or the elements of another array, to a part of an array."""
        view = self.write.view(t.Item(statement.place, statement.base, statement.indices))
        kind = tuple(each.dtype for each in statement.base.type or () if isinstance(each, types.Array))
        int64 = self.write.each(types.int64)
        counters: list[cpp.Expr] = [cpp.Name(self._name(wanted), type=int64) for wanted in "ijkl"[: view.dimensions]]
        before: list[cpp.Stmt] = []
        source: Array | None = None
        if any(isinstance(each, types.Array) for each in statement.value.type or ()):
            source = self._source(statement, view)
            place = self.write.element_at(source, counters[view.dimensions - source.dimensions :], "read")
            own = tuple(each.dtype for each in statement.value.type or () if isinstance(each, types.Array))
            value = self.write.loaded(source, place, own, None)
        else:
            value = self.write.value(statement.value)
            if not isinstance(value, (cpp.Literal, cpp.Name)):
                name = self._name("filling")
                assert value.type is not None
                before = [cpp.Declare(f"const {self.numbers.name(value.type)}", [name], value)]
                value = cpp.Name(name, type=value.type, interval=value.interval)
        element = self.write.element_at(view, counters, "write")
        stored = (
            self.numbers.assigned(value, kind) if view.stored is None else self._as_stored(value, view.stored, kind)
        )
        loop: cpp.Stmt = cpp.Assign(element, "=", stored)
        for dimension in reversed(range(view.dimensions)):
            length = self._length(view, source, dimension)
            loop = self._counting(counters[dimension], length, [loop])
        return [*before, loop]

    def _source(self, statement: t.Store, view: Array) -> Array:
        """The array whose elements are assigned. They are read one by one, so it must not be the target."""
        source = self.write.array(statement.value)
        if origins(statement.value).arrays & origins(statement.base).arrays:
            raise DraftError(
                statement.place, "a part of an array is assigned to a part of the same one", "write a loop"
            )
        for number in range(source.dimensions):
            lengths = [array.describe(Extent.length, array.dimensions - 1 - number) for array in (source, view)]
            known = {each.value for each in lengths if isinstance(each, cpp.Literal)}
            if len(known) == 2:
                what = f"{lengths[0].value} elements are assigned to {lengths[1].value}"  # type: ignore[attr-defined]
                raise DraftError(statement.place, what, "assign a part of the same shape, or write a loop")
        return source

    def _length(self, view: Array, source: Array | None, dimension: int) -> cpp.Expr:
        length = view.describe(Extent.length, dimension)
        own = dimension - view.dimensions + (source.dimensions if source is not None else 0)
        if source is None or own < 0:
            return length
        other = source.describe(Extent.length, own)
        if isinstance(length, cpp.CallTo) and isinstance(other, (cpp.Literal, cpp.Name)):
            length, other = other, length  # both are equal
        if not self.write.module.simulated or length == other:
            return length
        # The shorter one is accessed out of bounds.
        int64 = self.write.each(types.int64)
        return cpp.CallTo("max", tuple(self.numbers.convert(each, int64) for each in (length, other)), type=int64)

    # --------------------------------------------------------------------------------------------- records

    def _record(self, version: t.Version, value: t.Expr, statement: t.Let) -> list[cpp.Stmt]:
        """A name for a record is a reference: an assignment to a field of it changes the array's element."""
        variable = self.write.variables.of.get(version)
        if variable is None:
            return []  # it is never read
        if len(variable.versions) > 1 or not isinstance(value, t.Item):
            raise DraftError(
                statement.place, f"{version.name} is no element of an array, or several in turn", "use two names"
            )
        access = "view" if self.write.module.simulated else "read"
        element, array = self.write.element(value.base, value.indices, access)
        self.write.require_screened_records(array, statement.place)
        name = self._array_name(version)
        kind = self.numbers.name(version.type or ())
        written = array.root is None or array.root in self.write.module.written(self.function)
        self.write.records[version] = cpp.Name(name, type=version.type), array.space
        return [cpp.Declare(f"{kind}&" if written else f"const {kind}&", [name], element)]

    def _store_member(self, statement: t.Store, member: str) -> cpp.Stmt:
        kind = tuple(member_type(each, member, statement.place) for each in statement.base.type or ())
        access = "write" if statement.operator is None else "update"
        target = self.write.member(statement.base, member, kind, None, access)
        if statement.operator is not None:
            made = self._update(statement, target, target)
            if made.operator != "=":
                return made
            value = made.value
        else:
            value = self.write.value(statement.value)
        return cpp.Assign(target, "=", self.numbers.assigned(value, kind))

    def _update(self, statement: t.Store, target: cpp.Expr, old: cpp.Expr) -> cpp.Assign:
        """``x[i] op= y``; with the operator ``=``, the value is still in the type in which it is computed."""
        old = self.write.held.get(statement, old)
        value = self.write.operation(statement.operator, old, statement.value, statement.signature, None)
        made = assignment(target, value)
        held = statement in self.write.held
        if made.operator == "=" and not held and not all(map(is_pure, (statement.base, *statement.indices))):
            raise DraftError(statement.place, "which element this is would be computed twice", "assign it before")
        return made

    def _counting(self, counter: cpp.Expr, length: cpp.Expr, body: list[cpp.Stmt]) -> cpp.Stmt:
        """A loop from 0."""
        assert isinstance(counter, cpp.Name)
        test = cpp.Infix("<", counter, length)
        step = cpp.Assign(counter, "+=", cpp.Literal("1", 1))
        return cpp.For("int64_t", counter.text, cpp.Literal("0", 0), test, step, body)

    def _as_stored(self, value: cpp.Expr, stored: str, kind: Type) -> cpp.Expr:
        """A number converted to the type in which it is stored. A number that is loaded and stored keeps its bits, also
        those of a nan."""
        if isinstance(value, cpp.Cast) and value.stored == stored:
            return value.operand
        if isinstance(value, cpp.Ternary) and value.type != kind and not _is_loaded(value.chosen, value.otherwise):
            value = self.numbers.convert(value, kind)  # without what widened an element
        if isinstance(value, cpp.Ternary) and _is_loaded(value.chosen, value.otherwise):
            parts = (self._as_stored(each, stored, kind) for each in (value.chosen, value.otherwise))
            return cpp.Ternary(value.test, *parts)
        if isinstance(value, cpp.Literal) and float(value.value).is_integer() and abs(value.value) <= _EXACT_IN_HALF:
            return cpp.Cast(stored, cpp.Literal(f"{float(value.value)!r}f", value.value))
        if isinstance(value, cpp.Cast) and is_no_number(value.operand):
            return cpp.Cast(stored, value.operand)
        return cpp.Cast(stored, value if value.type == kind else self.numbers.convert(value, kind))


def stored_types(statement: t.Store) -> list[types.Type]:
    """What a store writes to: elements, or arrays."""
    found: list[types.Type] = []
    for each in statement.base.type or ():
        assert isinstance(each, types.Array)
        indices = statement.indices
        if len(indices) == 1 and isinstance(indices[0], t.TupleOf):
            indices = indices[0].elements
        whole = len(indices) == each.ndim and not any(isinstance(index, t.Slice) for index in indices)
        found.append(each.dtype if whole else each)
    return found


def _is_loaded(*values: cpp.Expr) -> bool:
    """Whether one of them is an element of an array."""
    return any(isinstance(each, cpp.Cast) and each.stored is not None for each in values)
