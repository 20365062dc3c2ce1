"""Writes calls of the functions in the table of operations."""

from __future__ import annotations

from numba import cuda, types

from trifold.draft import cpp, oracle
from trifold.draft import tree as t
from trifold.draft.cpp import fits, limits
from trifold.draft.refusal import DraftError
from trifold.draft.tree import Type
from trifold.draft.views import Views

_OF_MINIMUM = frozenset({types.float32, types.float64})  # for which a GPU has an instruction
#: Atomics of floats that CUDA lacks, and <trifold/python_numbers.cuh> has.
_OF_FLOATS = ("atomicMax", "atomicMin", "atomicNanMax", "atomicNanMin")
_OF_MASKS = (cuda.match_any_sync, cuda.match_all_sync)


class Calls(Views):
    """Mixed into :class:`trifold.draft.expressions.Expressions`."""

    def _parameter_types(self, call: t.Call) -> list[Type]:
        count = len(call.signature[0].args)
        return [tuple(each.args[i] for each in call.signature) for i in range(count)]

    @property
    def boolean(self) -> Type:
        return self.each(types.boolean)

    def call(self, name: str, call: t.Call) -> cpp.Expr:
        """A function that is overloaded, or that accepts what its arguments are converted to."""
        wanted = self._parameter_types(call)
        values = [self.value(argument) for argument in call.arguments]
        arguments = [self.numbers.convert(value, kind) for value, kind in zip(values, wanted, strict=True)]
        if call.function in _OF_MASKS:
            arguments[0] = values[0]  # the first argument without a conversion
        return cpp.CallTo(name, tuple(arguments), type=call.type, interval=call.interval)

    def mathematics(self, name: str, call: t.Call) -> cpp.Expr:
        """A function of C++'s library, which has no overloads for half types."""
        if call.type != self.each(types.float16):
            return self.call_with_floats(name, call)
        float32 = self.each(types.float32)
        arguments = tuple(self.numbers.convert(self.value(each), float32) for each in call.arguments)
        return self.numbers.convert(cpp.CallTo(name, arguments, type=float32), self.each(types.float16))

    def call_with_floats(self, name: str, call: t.Call) -> cpp.Expr:
        """A function of floats. C++'s library also accepts integers, but not always in the type of Numba's
        signature."""
        float64 = self.each(types.float64)
        if name == "pow" and call.type == self.each(types.float32):
            name = "powf"  # pow of a float and an integer is a double
        if call.type != float64 or name == "ldexp":
            return self.call(name, call)
        wanted = self._parameter_types(call)
        kinds = [float64 if all(isinstance(each, types.Integer) for each in kind) else kind for kind in wanted]
        values = (self.value(argument) for argument in call.arguments)
        arguments = tuple(self.numbers.convert(value, kind) for value, kind in zip(values, kinds, strict=True))
        return cpp.CallTo(name, arguments, type=call.type)

    def universal(self, of_floats: str, of_integers: str, call: t.Call) -> cpp.Expr:
        """A function of NumPy that is another function for integers, or returns them unchanged."""
        kinds = self._parameter_types(call)[0]
        if not all(isinstance(each, types.Integer | types.Boolean) for each in kinds):
            return self.call(of_floats, call)
        if not of_integers:
            return self.numbers.convert(self.value(call.arguments[0]), call.type or kinds)
        return self.absolute(call) if of_integers == "abs" else self.call(of_integers, call)

    def combined(self, sign: str, call: t.Call) -> cpp.Expr:
        """A function of NumPy that is an operator in C++: computed in the type of its result, also if that is
        narrow."""
        assert call.type is not None
        left, right = (self.numbers.convert(self.value(each), call.type) for each in call.arguments)
        narrow = all(fits(limits(each), types.int32) for each in call.type)
        kind = self.each(types.int32) if narrow and call.type != self.boolean else call.type
        return self.numbers.convert(cpp.Infix(sign, left, right, type=kind), call.type)

    def selected(self, call: t.Call) -> cpp.Expr:
        """``cuda.selp``, which computes both values."""
        test, *values = call.arguments
        chosen, otherwise = (self.value(each) for each in values)
        assert call.type is not None
        return self.numbers.choose(self.condition(test), chosen, otherwise, call.type, call.interval)

    def printed(self, call: t.Call) -> cpp.Expr:
        """``print``, with the ``printf`` format that Numba uses."""
        if self.module.simulated:
            raise DraftError(call.place, "print is not translated", "the interpreter runs it")
        formats, values = [], []
        for argument, (kind, *others) in zip(call.arguments, self._parameter_types(call), strict=True):
            if isinstance(argument, t.Constant) and isinstance(argument.value, str):
                formats.append(argument.value.replace("%", "%%"))
                continue
            wanted = types.float64
            if isinstance(kind, types.Integer):
                wanted = types.int64 if kind.signed else types.uint64
            formats.append("%f" if wanted == types.float64 else "%lld" if wanted == types.int64 else "%llu")
            value = self.value(argument)
            if others or value.type != self.each(wanted) or wanted != types.float64:
                name = {types.float64: "double", types.int64: "long long", types.uint64: "unsigned long long"}[wanted]
                value = cpp.Cast(name, value, type=self.each(wanted))
            values.append(value)
        text = cpp.Name(_string_literal(" ".join(formats) + "\n"))
        return cpp.CallTo("printf", (text, *values), type=call.type)

    def method(self, name: str, call: t.Call) -> cpp.Expr:
        (base,) = call.arguments
        return cpp.Invoke(cpp.Member(self.value(base), name), type=call.type)

    def complex_of(self, call: t.Call) -> cpp.Expr:
        """``complex(x, y)``, or ``complex(x)``."""
        assert call.type is not None
        if len(call.arguments) == 1:
            return self.numbers.convert(self.value(call.arguments[0]), call.type)
        part = tuple(each.underlying_float for each in call.type if isinstance(each, types.Complex))
        parts = tuple(self.numbers.convert(self.value(each), part) for each in call.arguments)
        return cpp.Braces(parts, self.numbers.name(call.type), type=call.type)

    def conversion(self, call: t.Call) -> cpp.Expr:
        assert call.type is not None
        value = self.value(call.arguments[0])
        if all(isinstance(each, types.Boolean) for each in call.type):
            return self.numbers.truth(value)
        integer = value.type is not None and all(isinstance(each, types.Integer) for each in (*value.type, *call.type))
        if integer and value.interval is not None and fits(value.interval, call.type[0]):
            # The number itself: C++ widens it where necessary.
            return value
        return self.numbers.convert(value, call.type)

    def absolute(self, call: t.Call) -> cpp.Expr:
        assert call.type is not None
        value = self.value(call.arguments[0])
        if isinstance((value.type or call.type)[0], types.Complex):
            return cpp.CallTo("trifold::abs", (value,), type=call.type)
        if call.type == self.each(types.float16):
            return cpp.CallTo("__habs", (value,), type=call.type)
        if all(isinstance(each, types.Float) for each in call.type):
            return cpp.CallTo("fabs", (self.numbers.convert(value, call.type),), type=call.type)
        if not all(isinstance(each, types.Integer) and each.signed for each in call.type):
            return value
        if call.interval is None or call.interval[0] < 0:
            # The result for the least number is that number, truncated to its type.
            narrow = all(each.bitwidth < types.int32.bitwidth for each in call.type)
            kind = self.each(types.int32 if narrow else types.int64)
            return self.numbers.convert(cpp.CallTo("abs", (self.numbers.convert(value, kind),), type=kind), call.type)
        small = value.type == self.each(types.int32) and fits(call.interval, types.int32)
        kind = self.each(types.int32 if small else types.int64)
        return cpp.CallTo("abs", (self.numbers.convert(value, kind),), type=kind, interval=call.interval)

    def rounded(self, call: t.Call) -> cpp.Expr:
        if len(call.arguments) != 1:
            return self.call("trifold::python_round", call)
        (kind,) = self._parameter_types(call)
        value = self.numbers.convert(self.value(call.arguments[0]), kind)
        nearest = cpp.CallTo("rint", (value,), type=kind)
        assert call.type is not None
        return self.numbers.convert(nearest, call.type)

    def least(self, name: str, call: t.Call) -> cpp.Expr:
        """Python's min and max, from the left. Numba computes them of two floats by the GPU's instruction, which leaves
        out a nan; of others by a comparison, in which a nan is neither less nor greater."""
        result = call.type
        assert result is not None
        values = [self.value(argument) for argument in call.arguments]
        integer = all(isinstance(each, types.Integer) for each in result)
        narrow = integer and all(fits(value.interval, types.int32) for value in values)
        kind = self.each(types.int32) if narrow else result
        own = call.arguments[0].type or result
        joined = self.numbers.convert(values[0], kind)
        choose = min if name == "min" else max
        for argument, value in zip(call.arguments[1:], values[1:], strict=True):
            other = argument.type or result
            intervals = [each.interval for each in (joined, value)]
            interval = None
            if all(each is not None for each in intervals):
                interval = (choose(each[0] for each in intervals), choose(each[1] for each in intervals))  # type: ignore[index]
            function = name if integer else self._function_of_least(name, own, other, call)
            joined = cpp.CallTo(function, (joined, self.numbers.convert(value, kind)), type=kind, interval=interval)
            own = tuple(oracle.unify(*pair) or pair[0] for pair in zip(own, other, strict=True))
        return joined

    def _function_of_least(self, name: str, left: Type, right: Type, call: t.Call) -> str:
        by_instruction = {{a, b} <= _OF_MINIMUM for a, b in zip(left, right, strict=True)}
        if by_instruction == {False}:
            return f"trifold::python_{name}"
        if by_instruction == {True}:
            return f"trifold::numba_{name}" if self.module.simulated else f"f{name}"
        raise DraftError(
            call.place,
            f"{name} is of two floats for some dtypes, which leaves out a nan, and not for others",
            "convert the arguments to one dtype before",
        )

    def _global_index(self, axis: str) -> cpp.Expr:
        int64, uint32 = self.each(types.int64), self.each(types.uint32)
        block = cpp.Cast("int64_t", cpp.Name(f"blockIdx.{axis}"), type=int64, interval=(0, 2**31))
        width = cpp.Name(f"blockDim.{axis}", type=uint32, interval=(1, 1024))
        thread = cpp.Name(f"threadIdx.{axis}", type=uint32, interval=(0, 1023))
        first = cpp.Infix("*", block, width, type=int64, interval=(0, 2**41))
        return cpp.Infix("+", first, thread, type=int64, interval=(0, 2**41))

    def grid(self, call: t.Call) -> cpp.Expr:
        if isinstance(call.type and call.type[0], types.BaseTuple):
            raise DraftError(call.place, "cuda.grid(2) is translated where it is unpacked", "write i, j = cuda.grid(2)")
        return self._global_index("x")

    def grid_parts(self, call: t.Call) -> list[cpp.Expr]:
        count = len(call.type[0]) if call.type else 0
        make = self._global_index if call.function is cuda.grid else self._global_size
        return [make(axis) for axis in "xyz"[:count]]

    def _global_size(self, axis: str) -> cpp.Expr:
        int64 = self.each(types.int64)
        blocks = cpp.Cast("int64_t", cpp.Name(f"gridDim.{axis}"), type=int64, interval=(1, 2**31))
        width = cpp.Name(f"blockDim.{axis}", type=self.each(types.uint32), interval=(1, 1024))
        return cpp.Infix("*", blocks, width, type=int64, interval=(1, 2**41))

    def grid_size(self, call: t.Call) -> cpp.Expr:
        if isinstance(call.type and call.type[0], types.BaseTuple):
            raise DraftError(
                call.place,
                "cuda.gridsize(2) is translated where it is unpacked",
                "write width, height = cuda.gridsize(2)",
            )
        return self._global_size("x")

    def sync_warp(self, call: t.Call) -> cpp.Expr:
        return cpp.CallTo("__syncwarp", tuple(self.value(argument) for argument in call.arguments), type=call.type)

    def warp(self, name: str, call: t.Call) -> cpp.Expr:
        """An operation of a warp; the mask is written as in the prototype."""
        mask, given, *others = (self.value(argument) for argument in call.arguments)
        vote = len(call.arguments) == 2
        wanted = self._parameter_types(call)[1]
        operand = self.condition(call.arguments[1]) if vote else self.numbers.convert(given, wanted)
        arguments = (mask, operand, *others)
        if name == "__ballot_sync":
            return self.bits_of(cpp.CallTo(name, arguments, type=self.each(types.uint32)), call)
        if vote:
            raw = cpp.CallTo(name, arguments, type=self.each(types.int32), interval=(0, 1))
            return self.numbers.truth(raw)
        return cpp.CallTo(name, arguments, type=wanted, interval=call.interval)

    def bits_of(self, value: cpp.Expr, call: t.Call) -> cpp.Expr:
        """A mask, which Numba treats as signed."""
        return cpp.Cast("int", value, type=self.each(types.int32), interval=limits(types.int32))

    def counted(self, name: str, call: t.Call) -> cpp.Expr:
        (kind,) = self._parameter_types(call)
        wide = isinstance(kind[0], types.Integer) and kind[0].bitwidth == 64
        if kind[0].bitwidth < 32:
            raise DraftError(call.place, f"{name.strip('_')} of {kind[0]} is not translated", "convert it to int32")
        argument = self.numbers.convert(self.value(call.arguments[0]), kind)
        function = f"{name}ll" if wide else name
        return cpp.CallTo(function, (argument,), type=self.each(types.int32), interval=(0, 64))

    def reversed(self, call: t.Call) -> cpp.Expr:
        (kind,) = self._parameter_types(call)
        name = "__brevll" if isinstance(kind[0], types.Integer) and kind[0].bitwidth == 64 else "__brev"
        return cpp.CallTo(name, (self.numbers.convert(self.value(call.arguments[0]), kind),), type=call.type)

    def not_unpacked(self, call: t.Call) -> cpp.Expr:
        raise DraftError(call.place, "this function gives several results", "unpack them: s, c = libdevice.sincosf(x)")

    def misplaced_array(self, call: t.Call) -> cpp.Expr:
        raise DraftError(call.place, "an array is assigned to a name", "write name = cuda.shared.array(...)")

    def atomic_of_first(self, name: str, call: t.Call) -> cpp.Expr:
        """An atomic without an index: on the first element of a one-dimensional array."""
        base, *others = call.arguments
        first = t.Constant(call.place, 0)
        first.type, first.interval = self.each(types.int64), (0, 0)
        return self._atomic(name, call, base, [first], others)

    def atomic(self, name: str, call: t.Call) -> cpp.Expr:
        base, index, *others = call.arguments
        return self._atomic(name, call, base, index.elements if isinstance(index, t.TupleOf) else [index], others)

    def _atomic(self, name: str, call: t.Call, base: t.Expr, indices: list[t.Expr], others: list[t.Expr]) -> cpp.Expr:
        element, array = self.element(base, indices, "atomic")
        kind = call.type
        assert kind is not None
        if array.stored is not None and array.stored != self.numbers.name(kind):
            raise DraftError(call.place, "an atomic operation on a half type is not translated", "add up in float32")
        values = tuple(self.numbers.convert(self.value(other), kind) for other in others)
        wide = all(isinstance(each, types.Integer) and each.bitwidth == 64 for each in kind)
        floating = all(isinstance(each, types.Float) for each in kind)
        if any(isinstance(each, types.Integer) and each.bitwidth < 32 for each in kind):
            raise DraftError(call.place, f"an atomic operation on {kind[0]} is not translated", "use int32 or wider")
        if not floating and not all(isinstance(each, types.Integer) for each in kind):
            raise DraftError(
                call.place, "an atomic operation on this type is not translated", "use int32, int64, float32 or float64"
            )
        if not floating:
            name = name.replace("Nan", "")
        if name == "atomicSub" and (floating or wide):
            name, values = "atomicAdd", (cpp.Prefix("-", values[0], type=kind),)
        if floating and name not in ("atomicAdd", "atomicExch", *_OF_FLOATS):
            raise DraftError(call.place, f"{name} of floats is not translated", "use integers")
        if floating and name == "atomicExch" and kind != self.each(types.float32):
            raise DraftError(call.place, "atomic.exch of float64 is not translated", "use integers")
        if name in ("atomicInc", "atomicDec") and wide:
            raise DraftError(call.place, f"{name} of {kind[0]} is not translated", "use uint32")
        if wide or (floating and name in _OF_FLOATS):
            name = f"trifold::atomic_{name.removeprefix('atomic').lower()}"
        address = cpp.Prefix("&", element)
        return cpp.CallTo(name, (address, *values), type=kind, interval=call.interval)


def _string_literal(text: str) -> str:
    written = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}" for byte in text[:-1].encode()
    )
    return f'"{written}\\n"'
