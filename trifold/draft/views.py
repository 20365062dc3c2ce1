"""Arrays and parts of them: addresses of elements, and views, which keep some of an array's dimensions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numba import cuda, types

from trifold.draft import cpp
from trifold.draft import tree as t
from trifold.draft.arithmetic import Arithmetic
from trifold.draft.arrays import Array, Describe, Extent
from trifold.draft.operations import array_arguments, dtype_named, shape_of
from trifold.draft.ranges import MOST_ELEMENTS
from trifold.draft.records import is_record
from trifold.draft.refusal import DraftError
from trifold.draft.tree import Interval, Type

if TYPE_CHECKING:
    from trifold.draft.functions import Module

NEW_ARRAYS = (cuda.shared.array, cuda.local.array)


class Views:
    """A base class of :class:`trifold.draft.expressions.Expressions`."""

    module: Module
    numbers: Arithmetic
    arrays: dict[t.Version, Array]

    def each(self, kind: types.Type) -> Type:
        raise NotImplementedError

    def value(self, expression: t.Expr) -> cpp.Expr:
        raise NotImplementedError

    def condition(self, expression: t.Expr) -> cpp.Expr:
        raise NotImplementedError

    def table_name(self, table: t.Table) -> str:
        raise NotImplementedError

    def member(
        self, record: t.Expr, name: str, kind: Type | None, interval: Interval | None, access: str = "read"
    ) -> cpp.Expr:
        raise NotImplementedError

    def array(self, expression: t.Expr) -> Array:
        if isinstance(expression, t.Read) and expression.version in self.arrays:
            return self.arrays[expression.version]
        if isinstance(expression, t.Item):
            return self.view(expression)
        if isinstance(expression, t.Table):
            lengths = expression.values.shape
            return self.fixed_array(cpp.Name(self.table_name(expression)), lengths, "constant")
        if isinstance(expression, t.Call) and expression.function is cuda.shared.array:
            return self.dynamic_shared(expression)
        if isinstance(expression, t.Choice):
            return self.chosen_array(expression)
        if isinstance(expression, t.Attribute) and expression.name == "T":
            return self.transposed(self.array(expression.base))
        if isinstance(expression, t.Attribute) and is_record(expression.base.type):
            return self.array_of_record(expression)
        raise DraftError(expression.place, "this array is not translated here", "use the array by its own name")

    # --------------------------------------------------------------------------------------------- whole arrays

    def array_of_record(self, field: t.Attribute) -> Array:
        """An array that is a field of an element of an array."""
        if self.module.simulated:
            raise DraftError(field.place, "arrays in records are not translated", "the interpreter runs it")
        (kind, *others) = field.type or ()
        assert isinstance(kind, types.NestedArray)
        assert all(each == kind for each in others)
        return self.fixed_array(self.member(field.base, field.name, field.type, None), kind.shape, "global")

    def fixed_array(self, pointer: cpp.Expr, lengths: tuple[int, ...], space: str) -> Array:
        """An array of constant lengths, declared in C++."""

        def describe(kind: Extent, dimension: int) -> cpp.Expr:
            if kind is Extent.length:
                number = lengths[dimension]
            else:
                others = lengths[dimension + 1 :] if kind is Extent.stride else lengths
                number = int(np.prod(others, dtype=int))
            return cpp.Literal(str(number), number, type=self.each(types.int32), interval=(number, number))

        return Array(pointer, len(lengths), describe, nested=len(lengths) > 1, fixed=lengths, space=space)

    def dynamic_shared(self, call: t.Call) -> Array:
        """The block's dynamic shared memory, as elements of one type."""
        shape, dtype = array_arguments(call)
        if shape_of(shape) != (0,):
            raise DraftError(call.place, "an array is assigned to a name", "write name = cuda.shared.array(...)")
        kinds = [dtype_named(dtype, instance) for instance in range(len(call.type or ()))]
        element = self.numbers.name(tuple(each for each in kinds if each is not None))

        def describe(_kind: Extent, _dimension: int) -> cpp.Expr:
            raise DraftError(
                call.place, "the length of dynamic shared memory is not translated", "pass it to the kernel"
            )

        pointer = cpp.CallTo(f"trifold::dynamic_shared<{element}>", ())
        return Array(pointer, 1, describe, space="shared", bounded=False)

    def transposed(self, array: Array) -> Array:
        """The array with its dimensions reversed."""
        if array.dimensions < 2:
            return array
        last = array.dimensions - 1

        def describe(kind: Extent, dimension: int) -> cpp.Expr:
            if kind is Extent.stride and dimension == 0 and array.contiguous:
                return self._whole(1)
            return array.describe(kind, last - dimension)

        made = replace(array, pointer=self.first(array), describe=describe, contiguous=False)
        return replace(made, nested=False, fixed=None)

    def chosen_array(self, choice: t.Choice) -> Array:
        """One of two arrays."""
        first, second = (self.array(each) for each in (choice.chosen, choice.otherwise))
        if first.stored != second.stored:
            raise DraftError(choice.place, "an array of a half type or another one is not translated", "write an if")
        test = self.condition(choice.test)

        def describe(kind: Extent, dimension: int) -> cpp.Expr:
            extents = [each.extent(kind, dimension) for each in (first, second)]
            if extents[0] == extents[1]:
                return extents[0]
            bounds = [each.interval for each in extents if each.interval is not None]
            interval = (min(low for low, _ in bounds), max(high for _, high in bounds)) if len(bounds) == 2 else None
            return cpp.Ternary(test, *extents, type=self.each(types.int64), interval=interval)

        return Array(
            cpp.Ternary(test, self.first(first), self.first(second)),
            first.dimensions,
            describe,
            contiguous=first.contiguous and second.contiguous,
            stored=first.stored,
            root=None if None in (first.root, second.root) else first.root,
            space=first.space if first.space == second.space else "passed",
            bounded=first.bounded and second.bounded,
            changes=first.changes or second.changes,
        )

    # --------------------------------------------------------------------------------------------- views

    def view(self, expression: t.Item) -> Array:
        """A part of an array, which keeps some of its dimensions."""
        base = self.array(expression.base)
        indices = _complete(expression, base.dimensions)
        if all(isinstance(each, t.Slice) and each.is_whole for each in indices):
            return base
        pointer = self._begin(base, indices)
        kept = [d for d, each in enumerate(indices) if isinstance(each, t.Slice)]
        slices = [each for each in indices if isinstance(each, t.Slice)]
        contiguous = bool(kept) and kept[-1] == base.dimensions - 1 and base.contiguous and slices[-1].step == 1
        starts = [self._start(base, d, each) for d, each in zip(kept, slices, strict=True)]
        describe = self._described(base, kept, slices, starts)
        made = replace(base, pointer=pointer, dimensions=len(kept), describe=describe, contiguous=contiguous)
        return replace(made, nested=False, fixed=None)

    def _described(
        self, base: Array, kept: list[int], slices: list[t.Slice], starts: list[cpp.Expr | None]
    ) -> Describe:
        """Strides and lengths of a view."""
        int64 = self.each(types.int64)

        def describe(kind: Extent, dimension: int) -> cpp.Expr:
            own = slices[dimension]
            match kind:
                case Extent.stride:
                    if kept[dimension] == base.dimensions - 1 and base.contiguous:
                        return self._whole(own.step)
                    stride = base.describe(kind, kept[dimension])
                    return stride if own.step == 1 else self._product(stride, self._whole(own.step))
                case Extent.length:
                    return self._length(base.describe(kind, kept[dimension]), own, starts[dimension])
            product = describe(Extent.length, 0)
            for other in range(1, len(kept)):
                product = self._product(product, describe(Extent.length, other))
            return self.numbers.convert(product, int64)

        return describe

    def _length(self, whole: cpp.Expr, part: t.Slice, start: cpp.Expr | None) -> cpp.Expr:
        """The length of a slice, with Python's clipping."""
        if part.is_whole:
            return whole
        int64 = self.each(types.int64)
        ends = [
            self._whole(0) if start is None else start,
            whole if part.stop is None else self.value(part.stop),
        ]
        limit = whole.interval[1] if whole.interval else MOST_ELEMENTS
        arguments = [whole, *ends, *([] if part.step == 1 else [self._whole(part.step)])]
        converted = tuple(self.numbers.assigned(each, int64) for each in arguments)
        return cpp.CallTo("trifold::slice_length", converted, type=int64, interval=(0, limit))

    def _product(self, left: cpp.Expr, right: cpp.Expr) -> cpp.Expr:
        if isinstance(left, cpp.Literal) and (isinstance(right, cpp.Literal) or left.value == 0):
            return self._whole(int(left.value * right.value) if isinstance(right, cpp.Literal) else 0)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, cpp.Literal) and one.value == 1:
                return other
        return self.numbers.combine("*", left, right, self.each(types.int64), _times(left.interval, right.interval))

    def _sum(self, left: cpp.Expr, right: cpp.Expr) -> cpp.Expr:
        """The sum of two offsets."""
        if isinstance(left, cpp.Literal) and isinstance(right, cpp.Literal):
            return self._whole(int(left.value + right.value))
        if left.type == self.each(types.int64) and isinstance(right, cpp.Infix) and right.operator in ("+", "-"):
            part, combine = self._sum(left, right.left), _plus if right.operator == "+" else _minus
            interval = combine(part.interval, right.right.interval)
            return self.numbers.combine(right.operator, part, right.right, self.each(types.int64), interval)
        return self.numbers.combine("+", left, right, self.each(types.int64), _plus(left.interval, right.interval))

    def _whole(self, number: int) -> cpp.Literal:
        return cpp.Literal(str(number), number, type=self.each(types.int32), interval=(number, number))

    def first(self, array: Array) -> cpp.Expr:
        """The address of an array's first element."""
        if not array.nested:
            return array.pointer
        return cpp.Prefix("&", cpp.Index(array.pointer, (cpp.Literal("0", 0),) * array.dimensions))

    # --------------------------------------------------------------------------------------------- elements

    def _start(self, base: Array, dimension: int, part: t.Slice) -> cpp.Expr | None:
        """The start of a slice, with Python's counting and clipping; None: 0."""
        if part.start is None:
            return None
        start, int64 = self.value(part.start), self.each(types.int64)
        known = part.start.interval
        if known is not None and known[0] >= 0:
            return start
        if not base.bounded:  # like every index into dynamic shared memory, it must not be negative
            if known is not None and known[1] < 0:
                self._refuse_from_end(part.start)
            return start
        length = base.describe(Extent.length, dimension)
        arguments = tuple(self.numbers.convert(each, int64) for each in (length, start))
        limit = length.interval[1] if length.interval else MOST_ELEMENTS
        return cpp.CallTo("trifold::slice_start", arguments, type=int64, interval=(0, limit))

    def _begin(self, base: Array, indices: list[t.Expr]) -> cpp.Expr:
        """The address of a view's first element."""
        fixed = [None if isinstance(each, t.Slice) else self._index(base, d, each) for d, each in enumerate(indices)]
        starts = [self._start(base, d, each) if isinstance(each, t.Slice) else None for d, each in enumerate(indices)]
        pointer = self.first(base)
        *rows, last = fixed
        if base.nested and not self.module.simulated and last is None and None not in rows:  # a row
            pointer = cpp.Index(base.pointer, tuple(each for each in rows if each is not None))
            offset = starts[-1]
        elif self.module.simulated and base.bounded:
            if any(each is not None for each in fixed):
                pointer = self._simulated(base, fixed, "view")
            offset = self.offset_of(base, starts)  # a slice may begin at the array's end
        else:
            offset = self.offset_of(base, [a if a is not None else b for a, b in zip(fixed, starts, strict=True)])
        return pointer if offset is None else cpp.Infix("+", pointer, offset)

    def offset_of(self, array: Array, indices: list[cpp.Expr | None]) -> cpp.Expr | None:
        """The offset of an element from the first one."""
        total: cpp.Expr | None = None
        for dimension, value in enumerate(indices):
            if value is None:
                continue
            if not (dimension == array.dimensions - 1 and array.contiguous):
                value = self._product(value, array.describe(Extent.stride, dimension))
            if total is None or (isinstance(total, cpp.Literal) and total.value == 0):
                total = value
            elif not (isinstance(value, cpp.Literal) and value.value == 0):
                total = self._sum(total, value)
        return total

    def _refuse_from_end(self, index: t.Expr) -> NoReturn:
        raise DraftError(
            index.place, "a negative index counts from the end, which dynamic shared memory does not tell", "pass it"
        )

    def _index(self, array: Array, dimension: int, index: t.Expr) -> cpp.Expr:
        """An index from the front: one that is known to be negative counts from the end."""
        value = self.value(index)
        if index.interval is not None and index.interval[1] < 0 and not self.module.simulated:
            if not array.bounded:
                self._refuse_from_end(index)
            length = array.describe(Extent.length, dimension)
            if isinstance(length, cpp.Literal) and isinstance(value, cpp.Literal):
                return self._whole(int(length.value + value.value))
            interval = _plus(length.interval, index.interval)
            if isinstance(value, cpp.Literal):
                value = self._whole(-int(value.value))
                return self.numbers.combine("-", length, value, self.each(types.int64), interval)
            return self.numbers.combine("+", length, value, self.each(types.int64), interval)
        return self.numbers.convert(value, self.each(types.int32)) if value.type == self.each(types.boolean) else value

    def element(self, base: t.Expr, indices: list[t.Expr], access: str) -> tuple[cpp.Expr, Array]:
        """An element of an array, in its type in memory.

        ``access``: read, write, update (both), atomic, or view (its address alone).
        """
        array = self.array(base)
        if len(indices) == 1 and isinstance(indices[0], t.TupleOf):
            indices = list(indices[0].elements)
        if len(indices) != array.dimensions:
            raise DraftError(
                base.place,
                f"{len(indices)} indices of an array of {array.dimensions} dimensions",
                "write one index for each dimension",
            )
        return self.element_at(array, [self._index(array, d, each) for d, each in enumerate(indices)], access), array

    def element_at(self, array: Array, indices: list[cpp.Expr], access: str) -> cpp.Expr:
        if self.module.simulated and array.bounded:
            return cpp.Index(self._simulated(array, list(indices), access), (cpp.Literal("0", 0),))
        if array.nested:
            return cpp.Index(array.pointer, tuple(indices))
        offset = self.offset_of(array, list(indices))
        assert offset is not None
        match array.pointer:
            case cpp.Infix(operator="+", left=pointer, right=start):  # of a view without a name
                zero = isinstance(offset, cpp.Literal) and offset.value == 0
                return cpp.Index(pointer, (start if zero else self._sum(start, offset),))
        return cpp.Index(array.pointer, (offset,))

    def _simulated(self, array: Array, indices: list[cpp.Expr | None], access: str) -> cpp.Expr:
        """The address of an element, computed by trifold/simulated.cuh."""
        along = []
        for dimension, index in enumerate(indices):
            if index is None:
                continue
            contiguous = dimension == array.dimensions - 1 and array.contiguous
            stride = self._whole(1) if contiguous else array.describe(Extent.stride, dimension)
            front = index.interval is not None and index.interval[0] >= 0
            function = "trifold::from_front" if front else "trifold::from_either_end"
            along.append(cpp.CallTo(function, (index, array.describe(Extent.length, dimension), stride)))
        name = cpp.Name(f'"{_name_of(array.pointer)}"')
        function = f"trifold::element<'{array.space[0]}', '{access[0]}'>"
        return cpp.CallTo(function, (self.first(array), name, *along), type=self.each(types.int64))


def _name_of(pointer: cpp.Expr) -> str:
    """The kernel's name for an array, or for the one that contains it."""
    match pointer:
        case cpp.Infix(left=inner) | cpp.Prefix(operand=inner) | cpp.Index(base=inner):
            return _name_of(inner)
        case cpp.CallTo(arguments=(inner, *_)):
            return _name_of(inner)
        case cpp.Name(text=text):
            return text
    return ""


def _complete(expression: t.Item, dimensions: int) -> list[t.Expr]:
    """The indices, completed with those that keep whole dimensions."""
    indices = expression.indices
    if len(indices) == 1 and isinstance(indices[0], t.TupleOf):
        indices = list(indices[0].elements)
    return [*indices, *(t.Slice(expression.place, None, None) for _ in range(dimensions - len(indices)))]


def _times(a: Interval | None, b: Interval | None) -> Interval | None:
    if a is None or b is None:
        return None
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _plus(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (a[0] + b[0], a[1] + b[1])


def _minus(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (a[0] - b[1], a[1] - b[0])
