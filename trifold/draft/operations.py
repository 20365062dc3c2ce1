"""The one table of operations: how Numba types each function that a kernel may call, and how it is written in C++."""

from __future__ import annotations

import cmath
import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda, types
from numba.core.errors import NumbaError
from numba.core.typing import signature
from numba.core.typing.npydecl import parse_dtype
from numba.np import numpy_support

from trifold.draft import libdevice, oracle, ufuncs, vectors
from trifold.draft import tree as t
from trifold.draft.refusal import DraftError

if TYPE_CHECKING:
    from trifold.draft import cpp
    from trifold.draft.expressions import Expressions

Write = Callable[["Expressions", t.Call], "cpp.Expr"]


@dataclass(frozen=True)
class Operation:
    """``typed(call, instance)`` returns the signature, or None as long as an argument's type is unknown."""

    typed: Callable[[t.Call, int], Any]
    write: Write


def typed_call(operation: Operation, call: t.Call, instance: int) -> Any:
    return operation.typed(call, instance)


# ------------------------------------------------------------------------------------------------- typing


def _arguments(call: t.Call, instance: int) -> tuple[types.Type, ...] | None:
    given = [*call.arguments, *call.keywords.values()]
    if any(argument.type is None for argument in given):
        return None
    return tuple(argument.type[instance] for argument in given if argument.type)


def _asked(call: t.Call, instance: int) -> Any:
    """The signature from Numba's CUDA context."""
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    found = oracle.resolve(call.function, arguments)
    if found is None:
        name = getattr(call.function, "__name__", str(call.function))
        raise DraftError(
            call.place,
            f"Numba has no {name} of {', '.join(map(str, arguments)) or 'nothing'} for CUDA",
            "convert the arguments, as in float32(x)",
        )
    return found


def _universal(call: t.Call, instance: int) -> Any:
    """The signature of one of NumPy's ufuncs."""
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    found = ufuncs.loop_of(call.function, arguments)
    if found is None:
        raise DraftError(
            call.place,
            f"NumPy's {call.function.__name__} of {', '.join(map(str, arguments))} is not translated",
            "convert the arguments, or use the function of math",
        )
    return found


def _printed(call: t.Call, instance: int) -> Any:
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    for argument, kind in zip(call.arguments, arguments, strict=False):
        if not isinstance(kind, types.Integer | types.UnicodeType) and kind not in (types.float32, types.float64):
            raise DraftError(argument.place, f"Numba prints no {kind} on a GPU", "print numbers and strings")
    if call.keywords or len(arguments) > 32:  # Numba prints more than these by a format
        raise DraftError(
            call.place, "print takes up to 32 numbers and strings, and nothing by name", "print fewer, by position"
        )
    return signature(types.none, *arguments)


def _vector(call: t.Call, instance: int) -> Any:
    found = _asked(call, instance)
    if found is not None and not all(isinstance(each, types.Number) for each in found.args):
        raise DraftError(call.place, "a vector made of vectors is not translated", "pass the numbers")
    return found


def _fixed(result: types.Type, *parameters: types.Type) -> Callable[[t.Call, int], Any]:
    def typed(call: t.Call, instance: int) -> Any:
        arguments = _arguments(call, instance)
        if arguments is None:
            return None
        if len(arguments) != len(parameters):
            raise DraftError(
                call.place, f"{len(parameters)} arguments are needed, not {len(arguments)}", "pass these, one by one"
            )
        return signature(result, *parameters)

    return typed


def _least(call: t.Call, instance: int) -> Any:
    """The signature of min and max, which the CUDA context lacks: Python's, with the one type of all arguments."""
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    if len(arguments) < 2 or not all(isinstance(each, types.Number | types.Boolean) for each in arguments):
        raise DraftError(call.place, "min and max are of two numbers or more", "write a loop over an array")
    joined = oracle.unify(*arguments)
    if joined is None:
        raise DraftError(
            call.place,
            f"{' and '.join(map(str, arguments))} have no type in common",
            "convert one of them, as in float(k)",
        )
    return signature(joined, *([joined] * len(arguments)))


def _integer_of(call: t.Call, instance: int) -> Any:
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    (given,) = arguments
    result = types.int64 if isinstance(given, types.Float | types.Boolean) else given
    if isinstance(result, types.Integer) and result.bitwidth < 64:
        result = types.int64 if result.signed else types.uint64
    return signature(result, given)


def _converted(result: types.Type) -> Callable[[t.Call, int], Any]:
    def typed(call: t.Call, instance: int) -> Any:
        arguments = _arguments(call, instance)
        return None if arguments is None else signature(result, *arguments)

    return typed


def _grid(call: t.Call, instance: int) -> Any:
    dimensions = _number(call.arguments[0])
    if dimensions not in (1, 2, 3):
        raise DraftError(
            call.place,
            "the number of dimensions is 1, 2 or 3, written out",
            "write cuda.grid(1), cuda.grid(2) or cuda.grid(3)",
        )
    result = types.int64 if dimensions == 1 else types.UniTuple(types.int64, dimensions)
    return signature(result, types.int64)


def _shuffled(call: t.Call, instance: int) -> Any:
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    kind = oracle.shuffled_type(arguments[1])
    if kind is None:
        raise DraftError(
            call.place, f"Numba has no shuffle of {arguments[1]}", "convert it to int32, int64, float32 or float64"
        )
    return signature(kind, types.int32, kind, types.int32)


def _atomic(call: t.Call, instance: int) -> Any:
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    array = arguments[0]
    if not isinstance(array, types.Array):
        raise DraftError(
            call.place,
            f"an atomic operation is on an element of an array, not on {array}",
            "pass the array, and then the index",
        )
    return signature(array.dtype, *arguments)


def _of_dtype(call: t.Call, instance: int) -> Any:
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    if not isinstance(arguments[1], types.Array):
        raise DraftError(
            call.place, ".dtype.type is translated of an array", "write x.dtype.type(v) of an array x, or float32(v)"
        )
    return signature(arguments[1].dtype, *arguments)


def _same(call: t.Call, instance: int) -> Any:
    """The signature with the type of the only argument."""
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    if not isinstance(arguments[0], types.Complex):
        raise DraftError(call.place, f".conjugate() of {arguments[0]} is not translated", "leave it out")
    return signature(arguments[0], *arguments)


def _synchronised(call: t.Call, instance: int) -> Any:
    arguments = _arguments(call, instance)
    if arguments is None:
        return None
    if arguments[0] != oracle.grid_group():
        raise DraftError(call.place, f".sync() of {arguments[0]} is not translated", "call it on cuda.cg.this_grid()")
    return signature(types.none, *arguments)


def dtype_named(expression: t.Expr, instance: int) -> types.Type | None:
    """The type named by an expression such as ``float64`` or ``x.dtype``; None: not known yet."""
    match expression:
        case t.Known(value=value):
            if isinstance(value, types.Type):
                return value
            if isinstance(value, type) and issubclass(value, np.generic):
                return numpy_support.from_dtype(np.dtype(value))
            if isinstance(value, str | np.dtype):
                with contextlib.suppress(TypeError, NumbaError):  # no dtype, or none of Numba's
                    return numpy_support.from_dtype(np.dtype(value))
            elif value in (float, int, bool):
                return {float: types.float64, int: types.int64, bool: types.boolean}[value]
        case t.Attribute(base=base, name="dtype"):
            return None if base.type is None else parse_dtype(types.DType(base.type[instance].dtype))
    raise DraftError(expression.place, "this is no dtype", "pass numba.float32, numpy.float32 or an array's dtype")


def shape_of(expression: t.Expr) -> tuple[int, ...]:
    """The constant lengths of a shared or local array."""
    elements = expression.elements if isinstance(expression, t.TupleOf) else [expression]
    return tuple(_number(element) for element in elements)


def _number(expression: t.Expr) -> int:
    match expression:
        case t.Constant(value=value) if isinstance(value, (int, np.integer)):
            return int(value)
        case t.Binary(operator=op, left=left, right=right):
            return int(op(_number(left), _number(right)))
        case t.Unary(operator=op, operand=operand):
            return int(op(_number(operand)))
    raise DraftError(expression.place, "this must be a constant", "use a number, or a global variable that is one")


def array_arguments(call: t.Call) -> tuple[t.Expr, t.Expr]:
    """Shape and dtype of ``cuda.shared.array``."""
    given = dict(zip(("shape", "dtype"), call.arguments, strict=False)) | call.keywords
    if set(given) != {"shape", "dtype"}:
        raise DraftError(
            call.place, "an array needs a shape and a dtype, and nothing else", "write cuda.shared.array(shape, dtype)"
        )
    return given["shape"], given["dtype"]


def _new_array(call: t.Call, instance: int) -> Any:
    shape, dtype = array_arguments(call)
    kind = dtype_named(dtype, instance)
    if kind is None:
        return None
    return signature(types.Array(kind, len(shape_of(shape)), "C"))


# ------------------------------------------------------------------------------------------------- writing


def _call_to(name: str) -> Write:
    return lambda writer, call: writer.call(name, call)


def _mathematics(name: str) -> Write:
    return lambda writer, call: writer.mathematics(name, call)


def _of_numbers(of_floats: str, of_integers: str) -> Write:
    return lambda writer, call: writer.universal(of_floats, of_integers, call)


def _of_sign(sign: str) -> Write:
    return lambda writer, call: writer.combined(sign, call)


def _atomic_call(name: str) -> Write:
    return lambda writer, call: writer.atomic(name, call)


MATHEMATICS = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atan2": "atan2",
    "atanh": "atanh", "ceil": "ceil", "copysign": "copysign", "cos": "cos", "cosh": "cosh",
    "degrees": "trifold::degrees", "erf": "erf", "erfc": "erfc", "exp": "exp", "expm1": "expm1", "fabs": "fabs",
    "floor": "floor", "fmod": "fmod", "gamma": "tgamma", "hypot": "hypot", "isfinite": "isfinite", "isinf": "isinf",
    "isnan": "isnan", "ldexp": "ldexp", "lgamma": "lgamma", "log": "log", "log10": "log10", "log1p": "log1p",
    "log2": "log2", "pow": "pow", "radians": "trifold::radians", "remainder": "remainder", "sin": "sin",
    "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip

_CMATH = {
    "cos", "cosh", "exp", "isfinite", "isinf", "isnan", "log", "phase", "rect", "sin", "sinh", "sqrt",
}  # fmt: skip
_HALF_ARITHMETIC = ("hadd", "hsub", "hmul", "hdiv", "hfma", "hneg", "habs", "hmax", "hmin")
_HALF_COMPARISONS = ("heq", "hne", "hge", "hgt", "hle", "hlt")
_HALF_MATHEMATICS = (
    "hcos", "hsin", "hexp", "hexp2", "hexp10", "hlog", "hlog2", "hlog10", "hsqrt", "hrsqrt", "hrcp", "hceil", "hfloor",
    "hrint", "htrunc",
)  # fmt: skip

_HALVES = oracle.half_functions()
_INT32 = types.int32
_MATCH_ANY = "__match_any_sync"
_NUMBER_CLASSES = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, np.complex64, np.complex128, np.bool_,
]  # fmt: skip
_NUMBER_TYPES = [
    types.int8, types.int16, types.int32, types.int64, types.uint8, types.uint16, types.uint32, types.uint64,
    types.float16, types.float32, types.float64, types.complex64, types.complex128, types.boolean,
]  # fmt: skip

#: Atomics with an index, and their names in CUDA.
ATOMICS = {
    cuda.atomic.add: "atomicAdd",
    cuda.atomic.sub: "atomicSub",
    cuda.atomic.inc: "atomicInc",
    cuda.atomic.dec: "atomicDec",
    cuda.atomic.max: "atomicMax",
    cuda.atomic.nanmax: "atomicNanMax",
    cuda.atomic.nanmin: "atomicNanMin",
    cuda.atomic.min: "atomicMin",
    cuda.atomic.and_: "atomicAnd",
    cuda.atomic.or_: "atomicOr",
    cuda.atomic.xor: "atomicXor",
    cuda.atomic.exch: "atomicExch",
    cuda.atomic.cas: "atomicCAS",
}

OPERATIONS: dict[Any, Operation] = {
    **{getattr(math, name): Operation(_asked, _mathematics(text)) for name, text in MATHEMATICS.items()},
    **{getattr(cmath, name): Operation(_asked, _call_to(f"trifold::{name}")) for name in _CMATH},
    **{
        getattr(_HALVES, name): Operation(_asked, _call_to(f"__{name}"))
        for name in (*_HALF_ARITHMETIC, *_HALF_COMPARISONS)
    },
    **{
        getattr(_HALVES, name): Operation(_fixed(types.float16, types.float16), _call_to(name))
        for name in _HALF_MATHEMATICS
    },
    **{each: Operation(_universal, _call_to(text)) for each, text in ufuncs.OF_FLOATS.items()},
    **{each: Operation(_universal, _call_to(text)) for each, text in ufuncs.OF_TESTS.items()},
    **{each: Operation(_universal, _of_numbers(*texts)) for each, texts in ufuncs.OF_NUMBERS.items()},
    **{each: Operation(_universal, _of_sign(text)) for each, text in ufuncs.OF_SIGNS.items()},
    **{each: Operation(_vector, _call_to(text)) for each, text in vectors.MAKERS.items()},
    complex: Operation(_asked, lambda writer, call: writer.complex_of(call)),
    oracle.conjugate: Operation(_same, _call_to("trifold::conjugate")),
    oracle.sync: Operation(_synchronised, lambda writer, call: writer.method("sync", call)),
    cuda.cg.this_grid: Operation(_asked, _call_to("cooperative_groups::this_grid")),
    **{
        kind: Operation(
            _converted(numpy_support.from_dtype(np.dtype(kind))), lambda writer, call: writer.conversion(call)
        )
        for kind in _NUMBER_CLASSES
    },
    **{kind: Operation(_converted(kind), lambda writer, call: writer.conversion(call)) for kind in _NUMBER_TYPES},
    oracle.of_dtype_of: Operation(_of_dtype, lambda writer, call: writer.conversion(call)),
    float: Operation(_asked, lambda writer, call: writer.conversion(call)),
    bool: Operation(_asked, lambda writer, call: writer.conversion(call)),
    int: Operation(_integer_of, lambda writer, call: writer.conversion(call)),
    abs: Operation(_asked, lambda writer, call: writer.absolute(call)),
    round: Operation(_asked, lambda writer, call: writer.rounded(call)),
    min: Operation(_least, lambda writer, call: writer.least("min", call)),
    max: Operation(_least, lambda writer, call: writer.least("max", call)),
    cuda.grid: Operation(_grid, lambda writer, call: writer.grid(call)),
    cuda.gridsize: Operation(_grid, lambda writer, call: writer.grid_size(call)),
    cuda.syncthreads: Operation(_fixed(types.none), _call_to("__syncthreads")),
    cuda.syncthreads_count: Operation(_fixed(_INT32, _INT32), _call_to("__syncthreads_count")),
    cuda.syncthreads_and: Operation(_fixed(_INT32, _INT32), _call_to("__syncthreads_and")),
    cuda.syncthreads_or: Operation(_fixed(_INT32, _INT32), _call_to("__syncthreads_or")),
    cuda.syncwarp: Operation(_converted(types.none), lambda writer, call: writer.sync_warp(call)),
    cuda.threadfence: Operation(_fixed(types.none), _call_to("__threadfence")),
    cuda.threadfence_block: Operation(_fixed(types.none), _call_to("__threadfence_block")),
    cuda.threadfence_system: Operation(_fixed(types.none), _call_to("__threadfence_system")),
    cuda.nanosleep: Operation(_fixed(types.none, types.uint32), _call_to("__nanosleep")),
    cuda.shfl_sync: Operation(_shuffled, lambda writer, call: writer.warp("__shfl_sync", call)),
    cuda.shfl_up_sync: Operation(_shuffled, lambda writer, call: writer.warp("__shfl_up_sync", call)),
    cuda.shfl_down_sync: Operation(_shuffled, lambda writer, call: writer.warp("__shfl_down_sync", call)),
    cuda.shfl_xor_sync: Operation(_shuffled, lambda writer, call: writer.warp("__shfl_xor_sync", call)),
    cuda.ballot_sync: Operation(
        _fixed(_INT32, _INT32, types.boolean), lambda writer, call: writer.warp("__ballot_sync", call)
    ),
    cuda.all_sync: Operation(
        _fixed(types.boolean, _INT32, types.boolean), lambda writer, call: writer.warp("__all_sync", call)
    ),
    cuda.any_sync: Operation(
        _fixed(types.boolean, _INT32, types.boolean), lambda writer, call: writer.warp("__any_sync", call)
    ),
    cuda.eq_sync: Operation(
        _fixed(types.boolean, _INT32, types.boolean), lambda writer, call: writer.warp("trifold::eq_sync", call)
    ),
    cuda.match_any_sync: Operation(_asked, lambda writer, call: writer.bits_of(writer.call(_MATCH_ANY, call), call)),
    cuda.activemask: Operation(_asked, _call_to("__activemask")),
    cuda.lanemask_lt: Operation(_asked, _call_to("trifold::lanes_below")),
    print: Operation(_printed, lambda writer, call: writer.printed(call)),
    cuda.selp: Operation(_asked, lambda writer, call: writer.selected(call)),
    **{stub: Operation(_asked, _call_to(name)) for stub, name in libdevice.FUNCTIONS.items()},
    **dict.fromkeys(libdevice.WITH_OUTPUTS, Operation(_asked, lambda writer, call: writer.not_unpacked(call))),
    cuda.popc: Operation(_asked, lambda writer, call: writer.counted("__popc", call)),
    cuda.ffs: Operation(_asked, lambda writer, call: writer.counted("__ffs", call)),
    cuda.clz: Operation(_asked, lambda writer, call: writer.counted("__clz", call)),
    cuda.brev: Operation(_asked, lambda writer, call: writer.reversed(call)),
    cuda.fma: Operation(_asked, _call_to("fma")),
    cuda.cbrt: Operation(_asked, _call_to("cbrt")),
    cuda.shared.array: Operation(_new_array, lambda writer, call: writer.misplaced_array(call)),
    cuda.local.array: Operation(_new_array, lambda writer, call: writer.misplaced_array(call)),
    **{stub: Operation(_atomic, _atomic_call(name)) for stub, name in ATOMICS.items()},
    cuda.atomic.compare_and_swap: Operation(_atomic, lambda writer, call: writer.atomic_of_first("atomicCAS", call)),
}

#: Functions that write to the array that is passed to them.
WRITE_ELEMENTS = frozenset({*ATOMICS, cuda.atomic.compare_and_swap})
