"""Arithmetic in C++ with the results of Numba's: decides which operands must be converted.

Numba converts both operands to the types of its signature. C++ converts operands of different types to a common one, so
that most conversions can be omitted. Those that are written are the fewest with the same result.
"""

from __future__ import annotations

import math

from numba import types

from trifold.draft import cpp
from trifold.draft.cpp import fits, limits
from trifold.draft.records import Records
from trifold.draft.tree import Interval, Type
from trifold.draft.type_names import TypeNames

_EXACT_IN_FLOAT = 2**24
_FLOOR_HELPERS = {"//": "trifold::floor_div", "%": "trifold::floor_mod"}


class UnnamedType(Exception):
    """A type that has no name in C++; the message names it."""


class Arithmetic:
    """``names``: the names of types that differ between instances; ``records``: the record types of the file."""

    def __init__(self, names: TypeNames, records: Records | None = None) -> None:
        self.names = names
        self.records = records or Records()
        self.used: set[str] = set()  # names used in the function that is being written

    def each(self, kind: types.Type, like: Type) -> Type:
        return (kind,) * len(like)

    def name(self, kind: Type) -> str:
        if len(set(kind)) == 1 and kind[0] in cpp.NAMES:
            return cpp.NAMES[kind[0]]
        if all(isinstance(each, types.UniTuple) for each in kind):
            return f"trifold::Array<{self.name(tuple(each.dtype for each in kind))}, {len(kind[0])}>"
        if len(set(kind)) == 1 and isinstance(kind[0], types.Record):
            return self.records.name(kind[0])
        name = self.names.of_number(kind)
        if name is not None:
            self.used.add(name)
            return name
        raise UnnamedType(f"{_listed(kind)} is not translated")

    # ------------------------------------------------------------------------------------------- conversions

    def convert(self, value: cpp.Expr, to: Type) -> cpp.Expr:
        """The value in exactly the type ``to``."""
        if value.type == to:
            return value
        if isinstance(value, cpp.Cast) and value.held:
            return self.convert(value.operand, to)
        if isinstance(value, cpp.Literal):
            literal = self._literal(value, to)
            if literal is not None:
                return literal
        if isinstance(value, cpp.Ternary) and (narrowed := self._narrowed_choice(value, to)) is not None:
            return narrowed
        interval = value.interval
        if _integers(to) and not all(fits(interval, each) for each in to):
            interval = limits(to[0]) if len(set(to)) == 1 else None
        if _is_half(value.type) and to != self.each(types.float32, to):
            float32 = self.each(types.float32, to)
            value = self.convert(value, float32)  # the only conversion that is not ambiguous
            if _integers(to):
                value = cpp.CallTo("rint", (value,), type=float32)  # Numba's: cvt.rni
        if isinstance(to[0], types.Complex) and not isinstance((value.type or to)[0], types.Complex):
            value = self.convert(value, tuple(each.underlying_float for each in to))
        return cpp.Cast(self.name(to), value, type=to, interval=interval)

    def _narrowed_choice(self, value: cpp.Ternary, to: Type) -> cpp.Expr | None:
        """A choice between numbers of the type ``to``, and constants for whose sake they were widened: it is made in
        that type, with the same result."""
        if not (_floats(to) and _floats(value.type or ())):
            return None
        parts = (value.chosen, value.otherwise)
        widened = [isinstance(each, cpp.Cast) and each.operand.type == to and _wider(each.type, to) for each in parts]
        of_type = [wide or each.type == to for each, wide in zip(parts, widened, strict=True)]
        constant = [isinstance(each, cpp.Literal) or is_no_number(each) for each in parts]
        if not (of_type[0] and constant[1]) and not (of_type[1] and constant[0]):
            return None
        own = (each.operand if wide else each for each, wide in zip(parts, widened, strict=True))  # type: ignore[attr-defined]
        return cpp.Ternary(value.test, *(self.convert(each, to) for each in own), type=to, interval=value.interval)

    def _literal(self, value: cpp.Literal, to: Type) -> cpp.Expr | None:
        number = value.value
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
            return None
        if set(to) in ({types.float64}, {types.float32}):
            return cpp.float_literal(float(number), to)
        if set(to) == {types.int64} and isinstance(number, int) and value.type and fits((number, number), types.int64):
            return cpp.Cast("int64_t", value, type=to, interval=(number, number))
        return None

    def assigned(self, value: cpp.Expr, to: Type) -> cpp.Expr:
        """The value for an assignment to ``to``: without a conversion where C++'s own does the same and does not
        surprise a reader."""
        if value.type is None or value.type == to:
            return value
        if isinstance(value, cpp.Cast) and value.held:
            return self.assigned(value.operand, to)
        if isinstance(value, cpp.Literal) and all(isinstance(each, types.Float) for each in to):
            return self._of_result(value, to)
        if isinstance(value, cpp.Ternary):
            parts = [
                self.convert(each, to) if isinstance(each, cpp.Literal) and _floats(to) else each
                for each in (value.chosen, value.otherwise)
            ]
            if all(each.type == to for each in parts):  # a number of that type, or a literal
                return cpp.Ternary(value.test, *parts, type=to, interval=value.interval)
        if any(each == types.float16 or isinstance(each, types.Complex) for each in (*value.type, *to)):
            return self.convert(value, to)
        from_float = any(isinstance(each, types.Float) for each in value.type)
        to_integer = all(isinstance(each, types.Integer) for each in to)
        to_bool = all(isinstance(each, types.Boolean) for each in to)
        if to_bool and not all(isinstance(each, types.Boolean) for each in value.type):
            return self.truth(value)
        if from_float and not all(isinstance(each, types.Float) for each in to):
            return self.convert(value, to)
        from_integer = all(isinstance(each, types.Integer) for each in value.type)
        pairs = zip(value.type, to, strict=True)
        if to_integer and from_integer and any(a.bitwidth == 64 and b.bitwidth < 64 for a, b in pairs):
            if isinstance(value, cpp.Literal):
                return value
            return self.convert(value, to)
        return value

    def signed(self, step: cpp.Expr) -> cpp.Expr:
        """The step of an innermost loop as ``int`` if it is unsigned, as ``blockDim.x`` is: nvcc then counts the
        iterations before the loop, as Numba does, and unrolls it, so that several loads are under way at once."""
        if set(step.type or ()) != {types.uint32} or not fits(step.interval, types.int32):
            return step
        return self.convert(step, self.each(types.int32, step.type or ()))

    def truth(self, value: cpp.Expr) -> cpp.Expr:
        """The value as a condition."""
        boolean = self.each(types.boolean, value.type or ())
        if value.type == boolean:
            return value
        zero: cpp.Expr = cpp.Literal("0", 0, type=self.each(types.int32, boolean), interval=(0, 0))
        if _is_half(value.type) or isinstance((value.type or boolean)[0], types.Complex):
            zero = self.convert(zero, value.type or boolean)
        return cpp.Infix("!=", value, zero, type=boolean, interval=(0, 1))

    # ------------------------------------------------------------------------------------------- arithmetic

    def combine(
        self, operator: str, left: cpp.Expr, right: cpp.Expr, result: Type, interval: Interval | None
    ) -> cpp.Expr:
        """``left operator right``, computed in the type ``result``."""
        left, right = self.balanced(operator, left, right, result, interval)
        kind = self._natural(left, right, operator) if _integers(result) else result
        return cpp.Infix(operator, left, right, type=kind, interval=interval)

    def balanced(
        self, operator: str, left: cpp.Expr, right: cpp.Expr, result: Type, interval: Interval | None
    ) -> tuple[cpp.Expr, cpp.Expr]:
        """Both operands, converted only where C++ would not compute in ``result`` by itself."""
        assert left.type is not None
        assert right.type is not None
        if not _integers(result):
            return self._balanced_floats(left, right, result)
        wanted = self._one_of(result)
        if operator not in ("<<", ">>") and wanted == types.int64 and _are_int64_together(left, right):
            return left, right
        left, right = self._of_one_type(left), self._of_one_type(right)
        if left.type == self.each(types.boolean, result):
            left = self._promoted(left)
        if right.type == self.each(types.boolean, result):
            right = self._promoted(right)
        if operator in ("<<", ">>"):
            natural = _promotion(left)
            if (natural.bitwidth < wanted.bitwidth and not fits(interval, natural)) or (
                natural.bitwidth == wanted.bitwidth and natural.signed != wanted.signed
            ):
                left = self.convert(left, result)
            return left, right
        natural = self._natural(left, right, operator)[0]
        if natural == wanted:
            return left, right
        if operator in ("&", "|", "^") and natural == types.uint64 and fits(interval, natural):
            return left, right  # the same bits
        nonnegative = all(operand.interval is not None and operand.interval[0] >= 0 for operand in (left, right))
        if natural.bitwidth < 64 and fits(interval, natural) and (natural.signed or nonnegative):
            return left, right
        if natural == types.uint32 and fits(interval, types.int32):
            int32 = self.each(types.int32, result)
            both = [self.convert(x, int32) if _promotion(x) == types.uint32 else x for x in (left, right)]
            if all(fits(x.interval, types.int32) for x in (left, right)):
                return both[0], both[1]
        if natural.bitwidth < 64:
            # One conversion is enough: C++ converts the other operand to this type, including its sign.
            if isinstance(right, cpp.Literal) and operator not in ("/", "%"):
                return left, self.convert(right, result)
            return self.convert(left, result), right
        return (
            self.convert(left, result) if _promotion(left) == natural else left,
            self.convert(right, result) if _promotion(right) == natural else right,
        )

    def _of_one_type(self, value: cpp.Expr) -> cpp.Expr:
        """An integer whose type differs between instances, converted to a type that holds all of them: C++ would
        promote each differently."""
        kind = value.type or ()
        if len(set(kind)) < 2 or not _integers(kind):
            return value
        if types.uint64 in kind:
            raise UnnamedType(f"arithmetic on {_listed(kind)} is not translated")
        return self.convert(value, self.each(types.int64, kind))

    def _one_of(self, result: Type) -> types.Integer:
        if len(set(result)) > 1:
            raise UnnamedType(f"arithmetic whose result is {_listed(result)} is not translated")
        return result[0]

    def _balanced_floats(self, left: cpp.Expr, right: cpp.Expr, result: Type) -> tuple[cpp.Expr, cpp.Expr]:
        if self._follows(right, result) and self._follows(left, result):
            pairs = zip(left.type or (), right.type or (), result, strict=True)
            if all(each in (a, b) for a, b, each in pairs):
                return self._of_result(left, result), self._of_result(right, result)
        if isinstance(left, cpp.Literal) and self._follows(right, result):
            return self.convert(left, result), right
        if isinstance(right, cpp.Literal) and self._follows(left, result):
            return left, self.convert(right, result)
        if self._follows(right, result):
            return self.convert(left, result), right
        return self.convert(left, result), self.convert(right, result)

    def _of_result(self, value: cpp.Expr, result: Type) -> cpp.Expr:
        """The literal of a double: ``0.0``, not ``0.0f``."""
        single = isinstance(value, cpp.Literal) and set(value.type or ()) == {types.float32}
        return self.convert(value, result) if single and set(result) == {types.float64} else value

    def _follows(self, value: cpp.Expr, to: Type) -> bool:
        """Whether C++ converts the value to ``to`` if the other operand has that type."""
        assert value.type is not None
        return all(
            a == b
            or (
                types.float16 not in (a, b)
                and (b == types.float64 or (isinstance(a, types.Integer) and isinstance(b, types.Float)))
            )
            for a, b in zip(value.type, to, strict=True)
        )

    def compare(self, operator: str, left: cpp.Expr, right: cpp.Expr, compared: tuple[Type, Type]) -> cpp.Expr:
        """``left operator right`` of two numbers that Numba compares in the types ``compared``."""
        assert left.type is not None
        assert right.type is not None
        boolean = self.each(types.boolean, left.type)
        if not all(_is_signed(x.type or ()) for x in (left, right)):
            left, right = self._of_one_type(left), self._of_one_type(right)
        if all(_integers(x.type or ()) or _booleans(x.type or ()) for x in (left, right)) and not _floats(compared[0]):
            left, right = self._comparable(left, right)
        elif not self._compares_alike(left, right):
            left, right = self._balanced_floats(left, right, compared[0])
        return cpp.Infix(operator, left, right, type=boolean, interval=(0, 1))

    def _compares_alike(self, left: cpp.Expr, right: cpp.Expr) -> bool:
        """Whether one is a small whole number and the other a float: the comparison is as exact in float as in
        double."""
        for literal, other in ((left, right), (right, left)):
            exact = _floats(other.type or ()) and not _is_half(other.type)
            if isinstance(literal, cpp.Literal) and isinstance(literal.value, int) and exact:
                return abs(literal.value) <= _EXACT_IN_FLOAT
        return False

    def _comparable(self, left: cpp.Expr, right: cpp.Expr) -> tuple[cpp.Expr, cpp.Expr]:
        """Both operands, converted where the other is unsigned: C++ would compare a negative number as a large one."""
        natural = self._natural(left, right, "<")[0]
        negative = [x.interval is None or x.interval[0] < 0 for x in (left, right)]
        if natural.signed or not any(negative):
            return left, right
        wide = types.int32 if all(fits(x.interval, types.int32) for x in (left, right)) else types.int64
        to = self.each(wide, left.type or ())
        return tuple(self.convert(x, to) if not _promotion(x).signed else x for x in (left, right))  # type: ignore[return-value]

    def divide(
        self, operator: str, left: cpp.Expr, right: cpp.Expr, result: Type, interval: Interval | None
    ) -> cpp.Expr:
        """Python's ``//`` and ``%``: C++'s operators where no operand is negative and the divisor is not 0."""
        plain = _integers(result) and all(fits(x.interval, each) for x in (left, right) for each in result)
        if plain and left.interval[0] >= 0 and right.interval[0] >= 1:  # type: ignore[index]
            return self.combine("/" if operator == "//" else "%", left, right, result, interval)
        if not _integers(result):
            arguments = tuple(self.convert(x, result) for x in (left, right))
            return cpp.CallTo(_FLOOR_HELPERS[operator], arguments, type=result)
        left, right = self.balanced(operator, left, right, result, interval)
        kind = self._natural(left, right, operator)
        if not kind[0].signed and any(_promotion(x).signed and not _nonnegative(x) for x in (left, right)):
            left, right, kind = self.convert(left, result), self.convert(right, result), result
        return cpp.CallTo(_FLOOR_HELPERS[operator], (left, right), type=kind, interval=interval)

    def negate(self, operand: cpp.Expr, result: Type, interval: Interval | None) -> cpp.Expr:
        if isinstance(operand, cpp.Literal) and not isinstance(operand.value, bool) and operand.text[0].isdigit():
            return cpp.Literal(f"-{operand.text}", -operand.value, type=operand.type, interval=interval)
        if _integers(result):
            operand, _ = self._of_one_type(operand), self._one_of(result)
            kind = _promotion(operand)
            small = kind == types.int32 and fits(interval, types.int32)
            if not small and kind != result[0]:
                to = types.int32 if fits(operand.interval, types.int32) and fits(interval, types.int32) else result[0]
                operand = self.convert(operand, self.each(to, result))
            return cpp.Prefix("-", operand, type=self.each(_promotion(operand), result), interval=interval)
        if is_no_number(operand):
            return cpp.Prefix("-", operand, type=operand.type)
        return cpp.Prefix("-", self.convert(operand, result), type=result)

    def in_own_type(self, operator: str, operand: cpp.Expr, own: Type) -> cpp.Expr:
        """``-`` and ``~``, which Numba computes in the operand's type before it widens the result."""
        kind = own[0]
        assert isinstance(kind, types.Integer)
        least_has_negative = types.int64 if kind.signed else kind
        computed_in = types.int32 if kind.bitwidth < types.int32.bitwidth else least_has_negative
        if computed_in == kind:
            return cpp.Prefix(operator, self.convert(operand, own), type=own, interval=limits(kind))
        narrow = self.convert(operand, own)
        wide = narrow if computed_in == types.int32 else self.convert(narrow, self.each(computed_in, own))
        return self.convert(cpp.Prefix(operator, wide, type=self.each(computed_in, own)), own)

    def invert(self, operand: cpp.Expr, result: Type, interval: Interval | None) -> cpp.Expr:
        operand, _ = self._of_one_type(operand), self._one_of(result)
        kind = _promotion(operand)
        if kind != result[0] and not (kind == types.int32 and result[0] == types.int64):
            operand = self.convert(operand, result)
        return cpp.Prefix("~", operand, type=self.each(_promotion(operand), result), interval=interval)

    def choose(
        self, test: cpp.Expr, chosen: cpp.Expr, otherwise: cpp.Expr, result: Type, interval: Interval | None
    ) -> cpp.Expr:
        assert chosen.type is not None
        assert otherwise.type is not None
        if _integers(result) and len(set(result)) == 1:
            chosen, otherwise = self._of_one_type(chosen), self._of_one_type(otherwise)
            both = [self._promoted(x) if x.type == self.each(types.boolean, result) else x for x in (chosen, otherwise)]
            natural = self._natural(both[0], both[1], "<")[0]
            if not natural.signed and natural != result[0]:
                to = types.int32 if all(fits(x.interval, types.int32) for x in both) else result[0]
                both = [self.convert(x, self.each(to, result)) if x.type[0] != to else x for x in both]  # type: ignore[index]
            kind = self._natural(both[0], both[1], "<")
            return cpp.Ternary(test, both[0], both[1], type=kind, interval=interval)
        if _booleans(result):
            return cpp.Ternary(test, chosen, otherwise, type=result, interval=(0, 1))
        left, right = self._balanced_floats(chosen, otherwise, result)
        return cpp.Ternary(test, left, right, type=result)

    def _promoted(self, value: cpp.Expr) -> cpp.Expr:
        return cpp.Cast("int", value, type=self.each(types.int32, value.type or ()), interval=(0, 1))

    def _natural(self, left: cpp.Expr, right: cpp.Expr, operator: str) -> Type:
        """The type in which C++ computes."""
        a, b = _promotion(left), _promotion(right)
        if operator in ("<<", ">>") or a == b:
            kind = a
        elif a.bitwidth != b.bitwidth:
            kind = a if a.bitwidth > b.bitwidth else b
        else:
            kind = a if not a.signed else b
        return self.each(kind, left.type or ())


def _listed(kind: Type) -> str:
    return " or ".join(sorted({str(each) for each in kind}))


def _promotion(value: cpp.Expr) -> types.Integer:
    """The type of an integer in C++ arithmetic, which promotes narrow ones to int."""
    kind = (value.type or (None,))[0]
    if isinstance(kind, types.Integer) and kind.bitwidth >= 32:
        return kind
    return types.int32


def _nonnegative(value: cpp.Expr) -> bool:
    return value.interval is not None and value.interval[0] >= 0


def _is_signed(kind: Type) -> bool:
    """Whether C++ promotes each of these integers to a signed type."""
    return all(isinstance(each, types.Integer) and (each.signed or each.bitwidth < 32) for each in kind)


def _are_int64_together(left: cpp.Expr, right: cpp.Expr) -> bool:
    """Whether C++ computes in int64 in each instance, since one of the operands is an int64."""
    kinds = [x.type or () for x in (left, right)]
    return any(set(kind) == {types.int64} for kind in kinds) and all(_is_signed(kind) for kind in kinds)


def _integers(kind: Type) -> bool:
    return all(isinstance(each, types.Integer) for each in kind)


def _booleans(kind: Type) -> bool:
    return all(isinstance(each, types.Boolean) for each in kind)


def _is_half(kind: Type | None) -> bool:
    return kind is not None and types.float16 in kind


def _wider(kind: Type | None, than: Type) -> bool:
    pairs = zip(kind or (), than, strict=True)
    return all(isinstance(a, types.Float) and a.bitwidth >= b.bitwidth for a, b in pairs)


def is_no_number(value: cpp.Expr) -> bool:
    if isinstance(value, cpp.Prefix):
        return is_no_number(value.operand)
    return isinstance(value, cpp.Name) and value.text in ("INFINITY", "NAN")


def _floats(kind: Type) -> bool:
    return all(isinstance(each, types.Float) for each in kind)
