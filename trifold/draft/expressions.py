"""Writes the typed tree's expressions as C++."""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda, types
from numba.np import numpy_support

from trifold.draft import cpp
from trifold.draft import tree as t
from trifold.draft.arithmetic import Arithmetic
from trifold.draft.arrays import Array, Extent
from trifold.draft.calls import Calls
from trifold.draft.cpp import fits
from trifold.draft.libdevice import WITH_OUTPUTS
from trifold.draft.operations import OPERATIONS, WRITE_ELEMENTS
from trifold.draft.passing import parts_of
from trifold.draft.ranges import overflows
from trifold.draft.records import is_record
from trifold.draft.refusal import DraftError, Place
from trifold.draft.tree import Interval, Type
from trifold.draft.variables import Variables

if TYPE_CHECKING:
    from trifold.draft.functions import Module

SIGNS = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.lshift: "<<",
    operator.rshift: ">>",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
_DIVISIONS = {operator.floordiv: "//", operator.mod: "%"}
_STUBS = {
    cuda.threadIdx: "threadIdx",
    cuda.blockIdx: "blockIdx",
    cuda.blockDim: "blockDim",
    cuda.gridDim: "gridDim",
}
_WITH_EFFECTS = {
    *WRITE_ELEMENTS,
    *(cuda.shfl_sync, cuda.shfl_up_sync, cuda.shfl_down_sync, cuda.shfl_xor_sync, cuda.ballot_sync, cuda.all_sync),
    *(cuda.eq_sync, cuda.match_any_sync, cuda.match_all_sync, print),
    *(cuda.any_sync, cuda.activemask, cuda.syncthreads_count, cuda.syncthreads_and, cuda.syncthreads_or),
}
_MOST_WRITTEN_OUT = 4  # factors of a power, at most, that are written out


class Expressions(Calls):
    def __init__(self, module: Module, instances: int) -> None:
        self.module = module
        self.numbers: Arithmetic = module.numbers
        self.instances = instances
        self.variables: Variables
        self.arrays: dict[t.Version, Array] = {}
        self.records: dict[t.Version, tuple[cpp.Expr, str]] = {}  # with the address space
        self.parts: dict[t.Version, list[cpp.Expr]] = {}  # of a tuple whose elements are separate variables
        self.held: dict[t.Expr | t.Stmt, cpp.Expr] = {}  # what was computed before the statement

    def each(self, kind: types.Type) -> Type:
        return (kind,) * self.instances

    # --------------------------------------------------------------------------------------------- values

    def value(self, expression: t.Expr) -> cpp.Expr:
        if expression in self.held:
            return self.held[expression]
        interval = expression.interval
        match expression:
            case t.Constant():
                return self._constant(expression)
            case t.Read(version=version):
                return self._read(version, interval)
            case t.Attribute():
                return self._attribute(expression)
            case t.Unary(operator=op, operand=operand):
                return self._unary(op, operand, expression)
            case t.Binary(operator=op, left=left, right=right, signature=signature):
                return self.operation(op, self.value(left), right, signature, expression.interval)
            case t.Compare():
                return self._compare(expression)
            case t.Logical():
                return self._logical(expression)
            case t.Choice(test=test, chosen=chosen, otherwise=otherwise):
                assert expression.type is not None
                return self.numbers.choose(
                    self.condition(test), self.value(chosen), self.value(otherwise), expression.type, interval
                )
            case t.Call():
                return self._call(expression)
            case t.Item():
                return self._item(expression)
            case t.TupleOf(elements=elements):
                return self._tuple_of(expression, [self.value(each) for each in elements])
        raise DraftError(
            expression.place,
            f"a {type(expression).__name__.lower()} is not translated here",
            "assign its parts to variables, and use those",
        )

    def _read(self, version: t.Version, interval: Interval | None) -> cpp.Expr:
        variable = self.variables.of[version]
        name = cpp.Name(variable.name, type=variable.type, interval=interval)
        own = version.type
        assert own is not None
        if own == variable.type or all(
            isinstance(each, types.Integer | types.Boolean) for each in (*own, *variable.type)
        ):
            return name
        # A variable of a wider type has this value exactly.
        return cpp.Cast(self.numbers.name(own), name, held=True, type=own, interval=interval)

    def condition(self, expression: t.Expr) -> cpp.Expr:
        if isinstance(expression, t.Logical) and expression not in self.held:
            return self._conditions(expression)
        if isinstance(expression, t.Unary) and expression.operator is operator.not_:
            inner = self.condition(expression.operand)
            if isinstance(inner, cpp.Infix) and inner.operator in ("==", "!="):
                return dataclasses.replace(inner, operator="!=" if inner.operator == "==" else "==")
            return cpp.Prefix("!", inner, type=self.boolean, interval=(0, 1))
        return self.numbers.truth(self.value(expression))

    def _conditions(self, expression: t.Logical) -> cpp.Expr:
        parts = [self.condition(operand) for operand in expression.operands]
        joined = parts[0]
        for part in parts[1:]:
            joined = cpp.Infix("&&" if expression.all_of else "||", joined, part, type=self.boolean, interval=(0, 1))
        return joined

    def _constant(self, constant: t.Constant) -> cpp.Expr:
        value = constant.value
        kind = constant.type
        assert kind is not None
        if isinstance(kind[0], types.Complex):
            parts = []
            for part in (value.real, value.imag):
                one = t.Constant(constant.place, float(part))
                one.type = tuple(each.underlying_float for each in kind if isinstance(each, types.Complex))
                parts.append(self._constant(one))
            return cpp.Braces(tuple(parts), self.numbers.name(kind), type=kind)
        if isinstance(kind[0], types.Boolean):
            return cpp.Literal("true" if value else "false", bool(value), type=kind, interval=constant.interval)
        if isinstance(kind[0], types.Integer):
            number = int(value)
            narrow = least_type(number, kind[0])
            if constant.name is not None:
                name = self.module.constant(constant.name, number, narrow)
                if name is not None:
                    return cpp.Name(name, type=self.each(narrow), interval=(number, number))
            text = _literal_text(constant.text) or str(number)
            if text == str(number) and narrow == types.uint32:
                narrow = types.int64  # C++'s type of a decimal literal
            if kind[0] == types.uint64 and narrow == types.uint64:
                text += "u"
            return cpp.Literal(text, number, type=self.each(narrow), interval=(number, number))
        real = float(value)
        if kind[0] == types.float16:
            return cpp.Cast("__half", cpp.Literal(f"{real!r}f", real), type=kind)
        if not math.isfinite(real):
            return cpp.Name(cpp.not_finite(real), type=self.each(types.float32))
        if constant.name is not None and "." not in constant.name:
            name = self.module.constant(constant.name, real, kind[0])
            if name is not None:
                return cpp.Name(name, type=kind)
        return cpp.float_literal(real, kind) or cpp.Name(cpp.not_finite(real), type=kind)

    def _attribute(self, expression: t.Attribute) -> cpp.Expr:
        base, name = expression.base, expression.name
        if is_record(base.type):
            return self.member(base, name, expression.type, expression.interval)
        if name == "laneid":
            return cpp.CallTo("trifold::lane_id", (), type=self.each(types.int32), interval=(0, 31))
        if isinstance(base, t.Known):
            return cpp.Member(
                cpp.Name(_STUBS[base.value]), name, type=self.each(types.uint32), interval=expression.interval
            )
        if name == "size":
            array = self.array(base)
            return array.describe(Extent.size, 0)
        if name == "ndim":
            dimensions = self.array(base).dimensions
            return cpp.Literal(str(dimensions), dimensions, type=self.each(types.int32), interval=(dimensions,) * 2)
        if name in ("real", "imag") and expression.type is not None and base.type == expression.type:
            return self.value(base) if name == "real" else self.numbers.convert(cpp.Literal("0", 0), expression.type)
        if name in ("real", "imag", "x", "y", "z", "w"):
            return cpp.Member(self.value(base), name, type=expression.type)
        raise DraftError(
            expression.place,
            f".{name} is not translated here",
            "use shape, size or ndim, or x.dtype.type(v), which converts v",
        )

    def member(
        self, record: t.Expr, name: str, kind: Type | None, interval: Interval | None, access: str = "read"
    ) -> cpp.Expr:
        """A field of an element of an array. With ``simulated``, the access counts as one to the whole record."""
        if isinstance(record, t.Read) and record.version in self.records:
            held, space = self.records[record.version]
            if self.module.simulated:
                held = cpp.CallTo(f"trifold::noted<'{space[0]}', '{access[0]}'>", (held,))
            return cpp.Member(held, name, type=kind, interval=interval)
        if not isinstance(record, t.Item):
            raise DraftError(record.place, "this record is not translated", "take it from an array: p = points[i]")
        element, array = self.element(record.base, record.indices, access)
        self.require_screened_records(array, record.place)
        return cpp.Member(element, name, type=kind, interval=interval)

    def require_screened_records(self, array: Array, place: Place) -> None:
        """The screen has one state per record: in shared memory, whether a field was written is not known."""
        if self.module.simulated and array.space == "shared":
            raise DraftError(place, "records in shared memory are not translated", "the interpreter runs it")

    def table_name(self, table: t.Table) -> str:
        assert table.type is not None
        kind = tuple(each.dtype for each in table.type if isinstance(each, types.Array))
        if isinstance(kind[0], types.Complex) or kind[0] == types.float16:
            raise DraftError(table.place, f"a constant array of {kind[0]} is not translated", "pass it to the kernel")
        constants = [t.Constant(table.place, each) for each in table.values.reshape(-1).tolist()]
        for each in constants:
            each.type = kind
        values = [self._constant(each) for each in constants]
        return self.module.table(table.name, self.numbers.name(kind), table.values.shape, values)

    # --------------------------------------------------------------------------------------------- operators

    def _unary(self, op: Any, operand: t.Expr, expression: t.Unary) -> cpp.Expr:
        result = expression.type
        assert result is not None
        if op is operator.not_:
            return self.condition(expression)
        if op is operator.invert and result == self.boolean:
            return self.condition(t.Unary(expression.place, operator.not_, operand))
        value = self.value(operand)
        if value.type == self.boolean:
            value = self.numbers.convert(value, self.each(types.int32))
        own = tuple(each.args[0] for each in expression.signature)
        unsigned = all(isinstance(x, types.Integer) and not x.signed for x in own)
        narrow = own != result and op is operator.neg and overflows(operand.interval, expression.signature)
        if (op in (operator.neg, operator.invert) and unsigned) or narrow:
            return self.numbers.in_own_type("-" if op is operator.neg else "~", value, own)
        if op is operator.neg:
            return self.numbers.negate(value, result, expression.interval)
        if op is operator.invert:
            return self.numbers.invert(value, result, expression.interval)
        return value

    def operation(
        self, op: Any, left: cpp.Expr, right: t.Expr, signature: list[Any], interval: Interval | None
    ) -> cpp.Expr:
        """The result of an operator, of which the left operand is already written."""
        result = tuple(each.return_type for each in signature)
        if op is operator.pow:
            return self._power(left, right, signature, interval)
        if op in _DIVISIONS:
            return self.numbers.divide(_DIVISIONS[op], left, self.value(right), result, interval)
        return self.numbers.combine(SIGNS[op], left, self.value(right), result, interval)

    def _power(self, base: cpp.Expr, exponent: t.Expr, signature: list[Any], interval: Interval | None) -> cpp.Expr:
        result = tuple(each.return_type for each in signature)
        if isinstance(result[0], types.Complex):
            raise DraftError(exponent.place, "a power of a complex number is not translated", "write the product")
        whole = isinstance(exponent, t.Constant) and isinstance(exponent.value, int)
        integer = all(isinstance(each, types.Integer) for each in result)
        if whole and (not integer or exponent.value >= 0):  # type: ignore[attr-defined]
            count = int(exponent.value)  # type: ignore[attr-defined]
            if 2 <= count <= _MOST_WRITTEN_OUT and isinstance(base, cpp.Name) and not integer and base.type == result:
                product: cpp.Expr = base
                if count == 4:
                    square = cpp.Infix("*", base, base, type=result)
                    return cpp.Infix("*", square, square, type=result)
                for _ in range(count - 1):
                    product = cpp.Infix("*", base, product, type=result)
                return (
                    product
                    if count == 2
                    else cpp.Infix("*", base, cpp.Infix("*", base, base, type=result), type=result)
                )
            function = f"trifold::power<{count}>"
            return cpp.CallTo(function, (self.numbers.convert(base, result),), type=result, interval=interval)
        kinds = [tuple(each.args[i] for each in signature) for i in (0, 1)]
        power = self.numbers.convert(self.value(exponent), kinds[1])
        whole = all(isinstance(each, types.Integer) for each in kinds[1])
        if whole:  # Numba multiplies in the type of the result
            arguments = (self.numbers.convert(base, result), power)
            return cpp.CallTo("trifold::power", arguments, type=result, interval=interval)
        return cpp.CallTo("pow", (self.numbers.convert(base, kinds[0]), power), type=result)

    def _compare(self, expression: t.Compare) -> cpp.Expr:
        values = [self.value(operand) for operand in expression.operands]
        for inner, value in zip(expression.operands[1:-1], values[1:-1], strict=True):
            if not is_pure(inner):
                raise DraftError(inner.place, "a call in a chain of comparisons is not translated", "assign it before")
            assert value is not None
        joined: cpp.Expr | None = None
        for op, signature, left, right in zip(
            expression.operators, expression.signatures, values, values[1:], strict=False
        ):
            kinds = tuple(tuple(each.args[i] for each in signature) for i in (0, 1))
            one = self.numbers.compare(SIGNS[op], left, right, kinds)  # type: ignore[arg-type]
            joined = one if joined is None else cpp.Infix("&&", joined, one, type=self.boolean, interval=(0, 1))
        assert joined is not None
        return joined

    def _logical(self, expression: t.Logical) -> cpp.Expr:
        if expression.type == self.boolean and all(each.type == self.boolean for each in expression.operands):
            return self._conditions(expression)
        # The value is that of an operand: `a or b` is a if a else b.
        *others, last = expression.operands
        value = self.value(last)
        for operand in reversed(others):
            if not is_pure(operand):
                raise DraftError(
                    operand.place, "this operand of `and` or `or` would be computed twice", "assign it to a variable"
                )
            own = self.value(operand)
            test = self.numbers.truth(own)
            chosen, otherwise = (value, own) if expression.all_of else (own, value)
            assert expression.type is not None
            value = self.numbers.choose(test, chosen, otherwise, expression.type, expression.interval)
        return value

    def _item(self, expression: t.Item) -> cpp.Expr:
        base = expression.base
        if is_tuple(base.type) and isinstance(expression.indices[0], t.Slice):
            return self._tuple_of(expression, self.elements(expression))
        if isinstance(base, t.Item) and is_tuple(base.type) and isinstance(base.indices[0], t.Slice):
            (chosen_by,) = expression.indices
            if isinstance(chosen_by, t.Constant):
                number: int = chosen_by.value
                return self.elements(base)[number]
        if isinstance(base, t.Attribute) and base.name == "shape":
            (index,) = expression.indices
            if not isinstance(index, t.Constant):
                lengths = self._tuple_of(base, self.elements(base))
                return cpp.Index(lengths, (self.value(index),), type=expression.type)
            if is_tuple(base.base.type):
                count = len((base.base.type or ())[0])
                return cpp.Literal(str(count), count, type=self.each(types.int32), interval=(count, count))
            array = self.array(base.base)
            return array.describe(Extent.length, index.value % array.dimensions)
        if isinstance(base, t.Read) and base.version not in self.arrays and is_tuple(base.type):
            return self._part(base, expression)
        if isinstance(base, t.Call) and is_tuple(base.type) and isinstance(expression.indices[0], t.Constant):
            return self._part_of_call(base, expression.indices[0].value)
        chosen = _chosen(expression)
        if chosen is not None:
            _require_no_other_effects(expression, chosen)
            return self.value(chosen)
        if is_tuple(expression.type) and isinstance(_whole(expression), t.TupleOf):  # a row of a constant
            return self._tuple_of(expression, self.elements(expression))
        table = _table_of(expression)
        if table is not None:
            return self._item(table)
        if isinstance(base, t.Item) and is_tuple(base.type):
            return cpp.Index(self.value(base), (self.value(expression.indices[0]),), type=expression.type)
        element, array = self.element(base, expression.indices, "read")
        kind = expression.type
        assert kind is not None
        return self.loaded(array, element, kind, expression.interval)

    # --------------------------------------------------------------------------------------------- tuples

    def elements(self, expression: t.Expr) -> list[cpp.Expr]:
        """The elements of a tuple, each as an expression."""
        match expression:
            case t.TupleOf(elements=elements):
                return [self.value(each) for each in elements]
            case t.Call(function=function) if function in (cuda.grid, cuda.gridsize):
                return self.grid_parts(expression)
            case t.Attribute(name="shape", base=base):
                array = self.array(base)
                return [array.describe(Extent.length, d) for d in range(array.dimensions)]
            case t.Item(base=base, indices=[t.Slice(constant=slice() as part)]) if is_tuple(base.type):
                return self.elements(base)[part]
            case t.Read(version=version) if version in self.parts:
                return self.parts[version]
            case t.Read(version=version):
                whole = self.arrays[version].pointer if version in self.arrays else self._read(version, None)
                return self.indexed(whole, expression.type or ())
            case t.Item() if isinstance(_whole(expression), t.TupleOf):
                return [self.value(each) for each in parts_of(expression, len((expression.type or ())[0]))]
            case t.Item():
                return self.indexed(self.value(expression), expression.type or ())
        if isinstance(expression, t.Call) and expression.function in WITH_OUTPUTS:
            self.not_unpacked(expression)
        raise DraftError(expression.place, "this tuple is not unpacked", "assign its elements one by one")

    def elements_of_array(self, expression: t.Expr, count: int) -> list[cpp.Expr]:
        """The elements of an array of ``count`` elements that is assigned to variables."""
        array = self.array(expression)
        kind = tuple(each.dtype for each in expression.type or () if isinstance(each, types.Array))
        indices = [
            cpp.Literal(str(number), number, type=self.each(types.int32), interval=(number, number))
            for number in range(count)
        ]
        return [self.loaded(array, self.element_at(array, [index], "read"), kind, None) for index in indices]

    def indexed(self, whole: cpp.Expr, kind: Type) -> list[cpp.Expr]:
        """The elements of an array in which a tuple is kept."""
        found: list[cpp.Expr] = []
        for number in range(len(kind[0])):
            own = tuple(each[number] for each in kind)
            found.append(cpp.Index(whole, (cpp.Literal(str(number), number),), type=own))
        return found

    def _tuple_of(self, expression: t.Expr, elements: list[cpp.Expr]) -> cpp.Expr:
        kind = expression.type or ()
        if any(not isinstance(each, types.UniTuple) for each in kind):
            raise DraftError(expression.place, "a tuple of several types is not translated here", "unpack it")
        element = tuple(each.dtype for each in kind)
        parts = tuple(self.numbers.convert(each, element) for each in elements)
        return cpp.Braces(parts, self.numbers.name(kind), type=kind)

    def _part_of_call(self, call: t.Call, number: int) -> cpp.Expr:
        """An element of a tuple that a call returns."""
        return (self.elements(call) if call.callees is None else self.members(call, self.value(call)))[number]

    def members(self, call: t.Call, result: cpp.Expr) -> list[cpp.Expr]:
        """The elements of a device function's result."""
        if self.module.returns_array(call.callees):
            return self.indexed(result, call.type or ())
        return [cpp.Member(result, member, type=own) for own, member in self.module.members_of(call)]

    def _part(self, base: t.Read, expression: t.Item) -> cpp.Expr:
        """An element of a tuple that is a variable."""
        (index,) = expression.indices
        if isinstance(index, t.Constant):
            number: int = index.value
            return self.elements(base)[number]
        return cpp.Index(self._read(base.version, None), (self.value(index),), type=expression.type)

    def loaded(self, array: Array, element: cpp.Expr, kind: Type, interval: Interval | None) -> cpp.Expr:
        """An element as a number."""
        if array.stored is not None:
            return cpp.Cast(self.numbers.name(kind), element, type=kind, stored=array.stored)
        return cpp.Index(element.base, element.indices, type=array.element or kind, interval=interval)  # type: ignore[attr-defined]

    def _call(self, call: t.Call) -> cpp.Expr:
        if call.callees is not None:
            return self.module.call(self, call)
        return OPERATIONS[call.function].write(self, call)


def is_pure(expression: t.Expr) -> bool:
    """Whether it may be computed twice: nothing that it calls writes memory or waits."""
    return all(
        not isinstance(each, t.Call)
        or (each.function not in _WITH_EFFECTS and (each.callees is None or _is_pure_function(each.callees)))
        for each in t.walk_expression(expression)
    )


def _is_pure_function(function: t.Function) -> bool:
    return all(
        not isinstance(statement, (t.Store, t.Evaluate)) and all(is_pure(each) for each in t.expressions(statement))
        for statement in t.walk(function.body)
    )


def is_tuple(kind: Type | None) -> bool:
    return any(isinstance(each, types.BaseTuple) for each in kind or ())


def _chosen(expression: t.Expr) -> t.Expr | None:
    """The element that a constant index selects from a written-out or constant tuple; None: the expression is another
    one."""
    if not isinstance(expression, t.Item):
        return expression if isinstance(expression, t.TupleOf) else None
    whole = _chosen(expression.base)
    (index, *others) = expression.indices
    if not isinstance(whole, t.TupleOf) or others or not isinstance(index, t.Constant):
        return None
    found: t.Expr = whole.elements[index.value]
    return found


def _require_no_other_effects(expression: t.Item, chosen: t.Expr) -> None:
    """Refuse to leave out elements of a written-out tuple that change memory."""
    within = set(t.walk_expression(chosen))
    for each in t.walk_expression(_whole(expression)):
        if each not in within and isinstance(each, t.Call) and not is_pure(each):
            problem = "an element of a tuple that is not selected, and changes memory, is not translated"
            raise DraftError(each.place, problem, "assign what the call returns to a variable before")


def _literal_text(text: str | None) -> str | None:
    """A hexadecimal number or a character in C++, as written."""
    if text is None or text.startswith("'"):
        return text
    return text.replace("_", "'") if text.lower().startswith("0x") else None


def _whole(expression: t.Item) -> t.Expr:
    """What the expression is an element of, or an element of an element, and so on."""
    base: t.Expr = expression
    while isinstance(base, t.Item):
        base = base.base
    return base


def _table_of(expression: t.Item) -> t.Item | None:
    """An element of a constant tuple of one type, as an element of an array of constants."""
    indices: list[t.Expr] = []
    base: t.Expr = expression
    while isinstance(base, t.Item):
        indices, base = [*base.indices, *indices], base.base
    if not isinstance(base, t.TupleOf):
        return None
    if base.name is None or base.type is None:
        raise DraftError(
            expression.place, "an element of a tuple is chosen by a constant", "assign the tuple to a variable first"
        )
    kind = base.type[0]
    while isinstance(kind, types.UniTuple):
        kind = kind.dtype
    values = np.array(_numbers(base))
    if isinstance(kind, types.BaseTuple) or values.ndim != len(indices) or values.dtype == object:
        raise DraftError(
            expression.place,
            "an element of a tuple of mixed types is chosen by a constant",
            "write t[0] and t[1], each in its branch of an if",
        )
    table = t.Table(expression.place, values.astype(numpy_support.as_dtype(kind)), base.name)
    table.type = tuple(types.Array(kind, values.ndim, "C") for _ in base.type)
    item = t.Item(expression.place, table, indices)
    item.type, item.interval = expression.type, expression.interval
    return item


def _numbers(expression: t.Expr) -> Any:
    if isinstance(expression, t.TupleOf):
        return [_numbers(each) for each in expression.elements]
    assert isinstance(expression, t.Constant)
    return expression.value


def least_type(number: int, kind: types.Type) -> types.Type:
    """C++'s type of an integer literal: the first type that can represent it."""
    if kind not in (types.int64, types.uint64):
        return kind
    return next(each for each in (types.int32, types.uint32, kind) if fits((number, number), each))
