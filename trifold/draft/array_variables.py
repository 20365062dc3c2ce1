"""Variables that are different arrays at different times: a pointer, and a variable for each stride or length that the
code uses. An assignment sets all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from numba import types

from trifold.draft import cpp
from trifold.draft import tree as t
from trifold.draft.arrays import Array, Extent, Wanted
from trifold.draft.compound import assignment
from trifold.draft.expressions import Expressions
from trifold.draft.operations import array_arguments, shape_of
from trifold.draft.origins import Origins, is_array, origins
from trifold.draft.ranges import MOST_ELEMENTS
from trifold.draft.refusal import DraftError
from trifold.draft.variables import Variable
from trifold.draft.views import NEW_ARRAYS
from trifold.draft.walk import names

Fresh = Callable[[str], str]  # returns a name like the given one that is not taken


@dataclass
class Move:
    """A variable's assignment or declaration, and the type of its value."""

    statement: cpp.Assign | cpp.Declare
    type: str

    @property
    def target(self) -> str:
        if isinstance(self.statement, cpp.Declare):
            return self.statement.names[0]
        assert isinstance(self.statement.target, cpp.Name)
        return self.statement.target.text

    def reads(self, name: str) -> bool:
        return self.statement.value is not None and name in names(self.statement.value)


def in_parallel(moves: Iterable[Move], fresh: Fresh) -> list[cpp.Stmt]:
    """Assignments that compute all values before the first is assigned, in an order that needs few copies."""
    waiting = list(moves)
    written: list[cpp.Stmt] = []
    copied: list[Move] = []
    while waiting:
        free = next((m for m in waiting if not any(other.reads(m.target) for other in waiting if other is not m)), None)
        if free is not None:
            waiting.remove(free)
            written.append(free.statement)
            continue
        first = next(m for m in waiting if m not in copied)
        copied.append(first)
        name = fresh(f"new_{first.target}")
        constant = f"{first.type} const" if first.type.endswith("*") else f"const {first.type}"
        written.append(cpp.Declare(constant, [name], first.statement.value, line=first.statement.line))
        first.statement.value = cpp.Name(name)
    return written


@dataclass(eq=False)
class ArrayVariable:
    variable: Variable
    array: Array
    pointer_type: str
    extents: dict[tuple[Extent, int], cpp.Name] = field(default_factory=dict)
    # declarations that precede the first assignment
    before: cpp.Several = field(default_factory=lambda: cpp.Several([]))


@dataclass
class _Assignments:
    """The assignments of one statement, which are written after the whole body."""

    arrays: list[tuple[ArrayVariable, Array]]
    numbers: list[Move]
    statement: t.Stmt
    written: cpp.Several


class ArrayVariables:
    """The variables of one function. ``written``: the numbers of the parameters that are written to."""

    def __init__(self, function: t.Function, write: Expressions, written: set[int], fresh: Fresh) -> None:
        self._write = write
        self._fresh = fresh
        self._waiting: list[_Assignments] = []
        self.of: dict[Variable, ArrayVariable] = {}
        for variable in write.variables.all:
            if is_array(variable.type) and len(variable.versions) > 1:
                made = self.of[variable] = self._made(variable, written)
                for version in variable.versions:
                    write.arrays[version] = made.array

    def _made(self, variable: Variable, written: set[int]) -> ArrayVariable:
        reads = [t.Read(version.place, version) for version in variable.versions]
        found = origins(*reads)
        kind = tuple(each for each in variable.type if isinstance(each, types.Array))
        place = variable.versions[0].place
        arrays = [self._of_origin(each, variable.name) for each in found.arrays]
        if len({each.stored for each in arrays}) > 1:
            raise DraftError(place, f"{variable.name} is arrays of a half type and others", "use two names")
        stored = arrays[0].stored
        element = stored or self._write.numbers.name(tuple(each.dtype for each in kind))
        constant = found.are_parameters and not found.parameters & written
        spaces = {each.space for each in arrays}
        array = Array(
            cpp.Name(variable.name),
            kind[0].ndim,
            lambda extent, dimension: self._described(made, extent, dimension),
            contiguous=_is_contiguous(found),
            stored=stored,
            root=min(found.parameters) if found.are_parameters else None,
            space=spaces.pop() if len(spaces) == 1 else "passed",
            bounded=all(each.bounded for each in arrays),
            changes=True,
        )
        lengths = _lengths(found)
        if lengths is not None:
            array.describe = self._write.fixed_array(array.pointer, lengths, array.space).describe
        made = ArrayVariable(variable, array, f"const {element}*" if constant else f"{element}*")
        if variable.is_parameter:
            own = next(each for each in variable.versions if each.parameter is not None)
            describe = self._write.arrays[own].describe

            def of_parameter(extent: Extent, dimension: int) -> cpp.Expr:
                name = describe(extent, dimension)
                assert isinstance(name, cpp.Name)
                return made.extents.setdefault((extent, dimension), name)

            array.describe = of_parameter
        return made

    def _of_origin(self, origin: t.Version | t.Expr, name: str) -> Array:
        if isinstance(origin, t.Version) and origin in self._write.arrays:
            return self._write.arrays[origin]
        value = origin.value if isinstance(origin, t.Version) else origin
        if isinstance(value, t.Call) and value.function in NEW_ARRAYS:
            bounded = shape_of(array_arguments(value)[0]) != (0,)
            space = "shared" if value.function is NEW_ARRAYS[0] else "local"
            return Array(cpp.Name(name), 1, lambda _kind, _dimension: cpp.Name(""), space=space, bounded=bounded)
        raise DraftError(origin.place, f"{name} is several arrays in turn, one of them a constant", "use two names")

    def _described(self, own: ArrayVariable, kind: Extent, dimension: int) -> cpp.Expr:
        array = own.array
        if kind is Extent.size and array.dimensions == 1:
            kind = Extent.length
        if (kind, dimension) not in own.extents:
            wanted = Wanted(own.variable.name, kind, dimension).name(array.dimensions, array.contiguous)
            least = -MOST_ELEMENTS if kind is Extent.stride else 0
            int64 = self._write.each(types.int64)
            name = cpp.Name(self._fresh(wanted), type=int64, interval=(least, MOST_ELEMENTS))
            own.extents[kind, dimension] = name
            if not own.variable.starts:
                own.before.body.append(cpp.Declare("int64_t", [name.text]))
        return own.extents[kind, dimension]

    def names_of(self, variable: Variable) -> set[str]:
        """The C++ variables that an assignment sets."""
        own = self.of.get(variable)
        return {variable.name, *(each.text for each in own.extents.values())} if own is not None else {variable.name}

    # --------------------------------------------------------------------------------------------- statements

    def declared(self, variable: Variable) -> list[cpp.Stmt]:
        """Declarations before the statement whose branches assign it."""
        own = self.of[variable]
        return [cpp.Declare(own.pointer_type, [variable.name]), own.before]

    def assigned(self, pairs: list[tuple[Variable, Array]], numbers: list[Move], statement: t.Stmt) -> cpp.Stmt:
        """Assignments of arrays and numbers by one statement."""
        arrays = [(self.of[variable], array) for variable, array in pairs]
        made = _Assignments(arrays, numbers, statement, cpp.Several([]))
        self._waiting.append(made)
        return made.written

    def settle(self) -> None:
        """Write the assignments, after the whole body, when the used strides and lengths are known."""
        before, known = -1, 0
        while before != known:
            before = known
            for each in self._waiting:
                for own, array in each.arrays:
                    for key in list(own.extents):
                        array.extent(*key)
            known = sum(len(own.extents) for own in self.of.values())
        for each in self._waiting:
            moves = [move for own, array in each.arrays for move in self._moves(own, array, each.statement)]
            each.written.body = in_parallel([*moves, *each.numbers], self._fresh)

    def _moves(self, own: ArrayVariable, array: Array, statement: t.Stmt) -> Iterable[Move]:
        line = statement.place.line
        starts = own.variable.before is statement and own.variable.starts
        values = [(own.variable.name, own.pointer_type, self._write.first(array))]
        values += [(name.text, "int64_t", array.extent(*key)) for key, name in own.extents.items()]
        for name, kind, value in values:
            if starts:
                yield Move(cpp.Declare(kind, [name], value, line=line), kind)
            elif value != cpp.Name(name) and not (isinstance(value, cpp.Name) and value.text == name):
                yield Move(assignment(cpp.Name(name), value, line=line), kind)


def _is_contiguous(found: Origins) -> bool:
    """Whether the last dimension has a stride of 1 for each of the arrays."""
    if found.transposed:
        return False
    for origin in found.arrays:
        kind = origin.type[0] if origin.type else None
        if not isinstance(kind, types.Array) or kind.layout != "C":
            return False
    for part in found.parts:
        last = part.indices[-1]
        whole = len(part.indices) < (part.base.type or (None,))[0].ndim
        if not whole and not (isinstance(last, t.Slice) and last.step == 1):
            return False
    return True


def _lengths(found: Origins) -> tuple[int, ...] | None:
    """The constant lengths that all these arrays share; None: they differ or are not constant."""
    if found.parts or found.transposed:
        return None
    lengths = set()
    for each in found.arrays:
        value = each.value if isinstance(each, t.Version) else each
        if not isinstance(value, t.Call) or value.function not in NEW_ARRAYS:
            return None
        lengths.add(shape_of(array_arguments(value)[0]))
    (first, *others) = lengths
    return None if others or first == (0,) else first
