"""Typed numbers as Python objects, the device functions of host objects, and where variables are converted."""

from __future__ import annotations

import ast
import cmath
import gc
import math
import sys
import textwrap
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda

from trifold import _simulator as device
from trifold.simulator import arithmetic, types_of, unify
from trifold.simulator.complex_numbers import complex64, complex_of

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@given(st.sampled_from(INTEGERS), st.integers(-(2**63), 2**63 - 1))
def test_an_integer_wraps_to_its_width(kind: str, value: int) -> None:
    wrapped = int(np.array(value % 2**64, np.uint64).astype(kind))
    number = getattr(device, kind)(value)
    assert number == wrapped
    assert int(number) == wrapped
    assert repr(number) == str(wrapped)
    assert f"{number:d}" == str(wrapped)
    assert hash(number) == hash(wrapped)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_int64_wraps_in_either_form(a: int, b: int) -> None:
    for symbol, exact in (("add", a + b), ("sub", a - b), ("mul", a * b)):
        result = getattr(device, symbol)(arithmetic.literal(a) or a, arithmetic.literal(b) or b)
        assert result == (exact + 2**63) % 2**64 - 2**63
        assert isinstance(result, int) == (-(2**31) <= result < 2**31)


@given(st.floats(width=32))
def test_a_float32_prints_as_numpys_and_formats_as_a_float(value: float) -> None:
    number = device.float32(value)
    assert float(repr(number)) == float(str(np.float32(value))) or math.isnan(value)
    assert f"{number:.3f}" == f"{value:.3f}"
    assert number.view(np.int32) == np.float32(value).view(np.int32) or math.isnan(value)


@given(st.floats(width=16))
def test_a_float16_prints_its_shortest_digits(value: float) -> None:
    assert math.isnan(value) or np.float16(float(repr(device.float16(value)))) == value


@given(st.floats())
def test_a_float16_is_rounded_once(value: float) -> None:
    with np.errstate(over="ignore"):
        expected = float(np.float16(value))
    assert float(device.float16(value)) == expected or math.isnan(value)


def test_an_integer_is_an_index_and_a_float_is_not() -> None:
    assert [10, 20, 30][device.uint8(2)] == 30
    assert list(range(device.int32(3))) == [0, 1, 2]
    with pytest.raises(TypeError, match=r"not .*float32"):
        [1, 2][device.float32(1)]  # type: ignore[index]


def test_numpy_leaves_operators_to_our_numbers() -> None:
    for left in (np.float32(1), np.float64(1), np.int16(1)):
        assert type(left + device.float32(2)).__module__ != "numpy"
    assert np.asarray(device.float32(1.5)).dtype == np.float32
    assert np.sqrt(device.float32(4)) == 2


def test_division_by_zero_is_the_gpus() -> None:
    assert device.truediv(1, 0) == math.inf
    assert math.isnan(device.truediv(0.0, 0.0))
    assert device.floordiv(5, 0) == 0
    assert device.mod(-5, 0) == 0
    assert device.truediv(device.float32(-1), device.float32(0)) == -math.inf


def test_what_is_no_number_keeps_pythons_operators() -> None:
    assert device.add((1,), (2,)) == (1, 2)
    assert device.mul("ab", 2) == "abab"
    with pytest.raises(TypeError, match="unsupported operand"):
        device.add(1, None)
    with pytest.raises(TypeError, match=r"float32\(\) takes a number, not str"):
        device.float32("1")


def test_functions_say_what_they_take() -> None:
    square_root = device.functions["math.sqrt"]
    assert repr(square_root) == "<device function math.sqrt>"
    with pytest.raises(TypeError, match=r"math\.sqrt\(\) takes 1 argument \(2 given\)"):
        square_root(1, 2)
    with pytest.raises(TypeError, match=r"math\.sqrt\(\) takes numbers, not str"):
        square_root("4")
    assert math.isnan(square_root(-1.0))


def test_numbers_are_freed() -> None:
    gc.collect()
    before = sys.getallocatedblocks()
    number = device.float32(1)
    for _ in range(100_000):
        number = number + device.float32(0.5)
    assert sys.getallocatedblocks() - before < 1000


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        (np.float32, "float32"),
        (np.intp, "int64"),
        (np.longlong, "int64"),
        (numba.uint8, "uint8"),
        (numba.boolean, "bool"),
    ],
)
def test_casts_by_any_name(host: Any, kind: str) -> None:
    assert arithmetic.device_function(host) is arithmetic.CASTS[kind]


def test_other_objects_mean_the_same_on_the_device() -> None:
    for host in (print, range, len, np.zeros, object(), [], np.generic, "abs", 3):
        assert arithmetic.device_function(host) is None


def test_literals_of_64_bits_are_typed() -> None:
    assert arithmetic.literal(2**31 - 1) is None
    assert type(arithmetic.literal(2**31)) is device.int64
    assert type(arithmetic.literal(2**63)) is device.uint64
    assert arithmetic.literal(True) is None
    assert type(arithmetic.literal(np.float16(1))) is device.float16


# Where variables are converted --------------------------------------------------------------------------------------


def conversions(source: str, **types: Any) -> dict[str, str]:
    """Line and text of each converted expression, and to what."""
    function = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(function, ast.FunctionDef)
    names = {"range": range, "min": min, "np": np}

    def resolve(node: ast.expr) -> Any:
        try:
            return eval(ast.unparse(node), names)
        except NameError:
            return None

    arguments = tuple(types.get(each.arg) for each in function.args.args)
    found = unify.instances({"f": (function, resolve, resolve)}, "f", arguments, lambda value: None)[
        "f", arguments
    ].casts
    by_cast = {id(cast): kind for kind, cast in arithmetic.CASTS.items()}
    return {f"{node.lineno} {ast.unparse(node)}": by_cast[id(cast)] for node, cast in found.items()}  # type: ignore[attr-defined]


def test_a_value_is_converted_where_two_assignments_meet() -> None:
    source = """
    def f(x, y):
        u = x
        v = u + x
        if x < y:
            u = 2.5
        return u + x
    """
    assert conversions(source, x="float32", y="float32") == {"7 u": "float64"}
    assert conversions(source, x="float64", y="float32") == {}
    assert conversions(source) == {}


def test_an_accumulator_is_converted_in_its_loop_only_where_it_matters() -> None:
    source = """
    def f(x, start):
        total = start
        for i in range(4):
            total = total + x
        return total, x
    """
    assert conversions(source, x="float64", start="float32") == {"6 total": "float64"}  # float32 + float64 is float64
    assert conversions(source, x="float32", start="int64") == {"6 total": "float64"}
    assert conversions(source, x="float32", start="float32") == {}


def test_of_a_product_of_a_variable_with_itself_one_factor_is_converted() -> None:
    source = """
    def f(x):
        u = x
        for i in range(4):
            u = u * u + 1.5
        return i
    """
    assert conversions(source, x="float32") == {"5 u": "float64"}


def test_the_operand_of_an_augmented_assignment_takes_the_type_of_the_sum() -> None:
    source = """
    def f(x, y):
        u = x
        for i in range(4):
            u += x
            if y:
                u = 2.5
        return u + 1.0
    """
    assert conversions(source, x="float32", y="int32") == {"5 x": "float64"}


def test_a_choice_has_one_type() -> None:
    assert conversions("def f(x): return x if x else 0.0", x="float32") == {"1 x": "float64"}
    assert conversions("def f(x): return x if x else np.float32(0)", x="float32") == {}


def test_paths_that_end_do_not_meet() -> None:
    source = """
    def f(x, y):
        u = x
        if y:
            u = 2.5
            return u
        return u + x
    """
    assert conversions(source, x="float32", y="int32") == {}


def test_types_of_arguments() -> None:
    assert types_of.type_of(np.zeros((2, 3), np.float32)) == types_of.ArrayType("float32", 2)
    assert types_of.type_of((1, np.float32(2))) == ("int64", "float32")
    assert types_of.type_of(object()) is None
    assert types_of.type_of(np.zeros(1, "V4")) == types_of.ArrayType(None, 1)


# Complex numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda z: z * device.float32(2), np.complex64(2 + 4j)),
        (lambda z: device.int16(3) * z, np.complex64(3 + 6j)),
        (lambda z: device.int32(3) * z, np.complex128(3 + 6j)),
        (lambda z: device.mul(z, 2.0), np.complex128(2 + 4j)),
        (lambda z: device.mul(z, z), np.complex64(-3 + 4j)),
        (lambda z: device.truediv(z, z), np.complex64(1)),
        (lambda z: device.sub(1j, z), np.complex128(-1 - 1j)),
        (lambda z: z + 1, np.complex128(2 + 2j)),
        (lambda z: 2.0 * z, np.complex128(2 + 4j)),
        (lambda z: z + z, np.complex64(2 + 4j)),
        (lambda z: z / z, np.complex64(1)),
        (lambda z: -z, np.complex64(-1 - 2j)),
        (lambda z: (+z).conjugate(), np.complex64(1 - 2j)),
        (lambda z: complex_of(z.real, z.imag), np.complex64(1 + 2j)),
        (lambda z: complex_of(z.real, 2), np.complex128(1 + 2j)),
    ],
)
def test_complex_numbers_have_numbas_types(operation: Any, expected: Any) -> None:
    result = operation(complex64(1 + 2j))
    assert np.asarray(result).dtype == expected.dtype
    assert result == expected


@pytest.mark.parametrize("imag", [0.0, -0.0])
@pytest.mark.parametrize("real", [0.0, -0.0])
def test_zeros_of_a_complex64_keep_their_signs(real: float, imag: float) -> None:
    for z in (complex64(complex(real, imag)), complex64(real, imag), +complex64(complex(real, imag))):
        signs = [math.copysign(1, float(part)) for part in (z.real, z.imag, z.conjugate().imag, (-z).real)]
        assert signs == [math.copysign(1, part) for part in (real, imag, -imag, -real)]


def test_parts_of_a_complex64_are_float32s() -> None:
    z = complex64(2**24, 2**24)
    assert type(z.real) is type(z.imag) is type(device.float32(0))
    assert z.real + 1 == z.imag + 1 == 2**24 + 1  # a float64, as of a float32 and an int64
    with pytest.raises(TypeError, match="unsupported operand"):
        z + "1"  # type: ignore[operator]


@cuda.jit
def _of_constants_and_parts(out, z):
    out[0] = 10**-3
    out[1] = -(2**-1) * 1.0
    out[2] = 2**63 / 2
    out[3] = 1 << 63
    t = z[0].real
    t += 1
    out[4] = t
    out[5] = (z[0] + 1).imag + 1
    u = z[0]
    for _ in range(1):
        u = u * np.complex64(1)
    out[6] = u.imag + 1
    out[7] = 7 // 2 - 2**200 * 0


def test_operators_on_constants_are_pythons_and_parts_are_float32s() -> None:
    """CPython computes constants before Numba sees them."""
    out, large = np.zeros(8), 2.0**24
    _of_constants_and_parts[1, 1](out, np.array([large + large * 1j], np.complex64))
    assert list(out) == [0.001, -0.5, 2.0**62, 2.0**63, large + 1, large + 1, large + 1, 3]


@cuda.jit(device=True)
def _half_or_all(x, half):
    if half:
        return x / 2
    return x


@cuda.jit
def _of_device_functions(out, single, integer):
    out[0] = _half_or_all(single[0], False) + np.float32(1)  # a float64, for x / 2 is one
    out[1] = _half_or_all(integer[0], False) // 2
    out[2] = _half_or_all(integer[0], True) // 2


def test_a_device_function_has_types_for_each_that_it_is_called_with() -> None:
    out = np.zeros(3)
    _of_device_functions[1, 1](out, np.array([2**24], np.float32), np.array([7]))
    assert list(out) == [2**24 + 1, 3, 1]


@cuda.jit
def _of_unsigned_ranges(out, n):
    out[0] = 0
    for i in range(n[0]):
        out[0] += (i - 4) / 2**62  # a uint64 less an int64 is an int64
        out[1] = (i if i else 2**63) / 2
    out[2] = cuda.clz(cuda.threadIdx.x)
    lane = cuda.laneid
    out[3] = cuda.clz(lane)


def test_a_range_of_unsigned_numbers_gives_unsigned_ones_and_an_index_has_32_bits() -> None:
    out = np.zeros(4)
    _of_unsigned_ranges[1, 1](out, np.array([1], np.uint32))
    assert list(out) == [-4 / 2**62, 2.0**62, 32, 32]


@cuda.jit
def _of_cmath(out, z):
    out[0] = cmath.exp(z[0]).imag + 2**24
    out[1] = cmath.log(z[0] * 0).real
    out[2] = cmath.phase(z[0])


def test_cmath_of_a_complex64_is_one_and_raises_nothing() -> None:
    out = np.zeros(3)
    _of_cmath[1, 1](out, np.array([1j], np.complex64))
    assert list(out) == [np.float64(np.float32(math.sin(1))) + 2**24, -math.inf, np.float32(math.pi / 2)]


_ZERO, _SIX, _THREE = np.float32(0), np.int8(6), np.int8(3)


@cuda.jit
def _of_two_constants(out):
    out[0] = _SIX - _SIX
    out[1] = _SIX & _THREE
    out[2] = 1 if _ZERO else 2
    if _ZERO:
        out[3] = 1
    out[4] = not _ZERO
    out[5] = (_ZERO or 3) + (_SIX ^ _THREE)


def test_constants_are_not_computed_before_their_values_are_there() -> None:
    out = np.zeros(6)
    _of_two_constants[1, 1](out)
    assert list(out) == [0, 2, 2, 0, 1, 8]


def test_complex_numbers_have_no_remainder() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        device.float32(1) // np.complex64(1)
