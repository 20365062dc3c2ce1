"""The dialect's functions: an expression in CUDA C++ of doubles a, b and c, and its exact value."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np

# The value of an expression for a, b, c, as a float; None: the function is undefined there, or the row leaves it out.
Reference = Callable[[float, float, float], float | None]

U32, U64 = 1 << 32, 1 << 64
MODES = ("rn", "rz", "ru", "rd")


@dataclass(frozen=True)
class Row:
    """One expression. ``ulp``: the allowed error in last places of float32 (``single``) or float64; 0 is exact."""

    expression: str
    reference: Reference
    inputs: str
    ulp: float = 0
    single: bool = False

    def __str__(self) -> str:
        return self.expression


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: its precision in bits and the exponents of its normal numbers."""

    precision: int
    least: int
    greatest: int


DOUBLE, SINGLE, HALF, BFLOAT16 = (
    Format(53, -1022, 1023),
    Format(24, -126, 127),
    Format(11, -14, 15),
    Format(8, -126, 127),
)


def rounded(exact: Fraction, form: Format, mode: str = "rn") -> float:
    """The exact number rounded to the format; +0 for zeros of either sign."""
    if exact == 0:
        return 0.0
    size, negative = abs(exact), exact < 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, form.least) - form.precision + 1)
    whole, rest = divmod(size, unit)
    away = {"rz": False, "ru": not negative, "rd": negative}
    half = unit / 2
    up = (rest > half or (rest == half and whole % 2 == 1)) if mode == "rn" else rest > 0 and away[mode]
    value = (whole + up) * unit
    if value >= Fraction(2) ** (form.greatest + 1):
        infinite = mode == "rn" or away[mode]
        largest = (2 - Fraction(2) ** (1 - form.precision)) * Fraction(2) ** form.greatest
        return (-1 if negative else 1) * (math.inf if infinite else float(largest))
    return -float(value) if negative else float(value)


def of(form: Format, x: float) -> Fraction:
    """An operand: x rounded to the format."""
    return Fraction(rounded(Fraction(x), form))


def exactly(operation: Callable[..., Fraction], operand: Format, result: Format, mode: str = "rn") -> Reference:
    """The operation on operands of a format, rounded once."""
    count = operation.__code__.co_argcount

    def reference(a: float, b: float, c: float) -> float | None:
        try:
            return rounded(operation(*(of(operand, x) for x in (a, b, c)[:count])), result, mode)
        except (ZeroDivisionError, OverflowError):
            return None

    return reference


def square_root(form: Format, mode: str = "rn") -> Reference:
    """Rounded once: from 200 more bits, with a sticky last bit."""

    def reference(a: float, b: float, c: float) -> float | None:
        x = of(form, a)
        if x < 0:
            return None
        scaled = x.numerator * x.denominator << 800
        root = math.isqrt(scaled)
        return rounded(Fraction(2 * root + (root * root != scaled), x.denominator << 401), form, mode)

    return reference


def integer(function: Callable[..., int]) -> Reference:
    """A function of integers, to which the expression converts its operands."""
    count = function.__code__.co_argcount
    return lambda a, b, c: float(function(*map(int, (a, b, c)[:count])))


def real(function: Callable[..., mpmath.mpf], form: Format = DOUBLE) -> Reference:
    """By mpmath."""
    count = function.__code__.co_argcount

    def reference(a: float, b: float, c: float) -> float | None:
        with mpmath.workdps(40):
            return float(function(*(mpmath.mpf(float(of(form, x))) for x in (a, b, c)[:count])))

    return reference


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def saturating(low: int, high: int, mode: str, form: Format) -> Reference:
    steps: dict[str, Callable[[Fraction], int]] = {"rn": round, "rz": math.trunc, "ru": math.ceil, "rd": math.floor}
    step = steps[mode]
    return lambda a, b, c: float(min(max(step(of(form, a)), low), high))


def bits_of(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", np.float32(x)))[0])


def permuted(x: int, y: int, selector: int) -> int:
    data = (y % U32 << 32 | x % U32).to_bytes(8, "little")
    picked = []
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = data[nibble & 7]
        picked.append((255 if byte & 128 else 0) if nibble & 8 else byte)
    return int.from_bytes(picked, "little")


BYTES = range(0, 32, 8)


def lanes(operation: Callable[[int, int], int], bits: int, sign: bool = False) -> Callable[[int, int], int]:
    """An operation on each part of this many bits of two words."""
    return lambda a, b: in_lanes(operation, bits, sign, a, b)


def in_lanes(operation: Callable[..., int], bits: int, sign: bool, *words: int) -> int:
    result = 0
    for at in range(0, 32, bits):
        parts = [word >> at & (1 << bits) - 1 for word in words]
        made = operation(*(signed(part, bits) for part in parts) if sign else parts)
        result |= (made & (1 << bits) - 1) << at
    return result


def dot(a: int, b: int, c: int) -> int:
    return signed(c + sum(signed(a >> at, 8) * signed(b >> at, 8) for at in (0, 8, 16, 24)))


def rows() -> list[Row]:
    return [*_rounding(), *_conversions(), *_small(), *_integers(), *_dpx(), *_reals()]


def _rounding() -> list[Row]:
    found = []
    for mode in MODES:
        for prefix, kind, form in (("f", "float", SINGLE), ("d", "double", DOUBLE)):
            x, y, z = (f"{kind}({name})" for name in "abc")
            fma = "__fmaf" if prefix == "f" else "__fma"
            for expression, operation in (
                (f"__{prefix}add_{mode}({x}, {y})", lambda a, b: a + b),
                (f"__{prefix}sub_{mode}({x}, {y})", lambda a, b: a - b),
                (f"__{prefix}mul_{mode}({x}, {y})", lambda a, b: a * b),
                (f"__{prefix}div_{mode}({x}, {y})", lambda a, b: a / b),
                (f"__{prefix}rcp_{mode}({x})", lambda a: 1 / a),
                (f"{fma}_{mode}({x}, {y}, {z})", lambda a, b, c: a * b + c),
            ):
                found.append(Row(expression, exactly(operation, form, form, mode), "reals"))
            found.append(Row(f"__{prefix}sqrt_{mode}({x})", square_root(form, mode), "reals"))
    return found


def _conversions() -> list[Row]:
    found = []
    for mode in MODES:
        found.append(Row(f"__double2float_{mode}(a)", exactly(lambda a: a, DOUBLE, SINGLE, mode), "reals"))
        for name, kind, low, high in (
            ("int", "int", -(1 << 31), (1 << 31) - 1),
            ("uint", "unsigned", 0, U32 - 1),
            ("ll", "long long", -(1 << 63), (1 << 63) - 1),
            ("ull", "unsigned long long", 0, U64 - 1),
        ):
            found.append(Row(f"__float2{name}_{mode}(float(a))", saturating(low, high, mode, SINGLE), "reals"))
            found.append(Row(f"__double2{name}_{mode}(a)", saturating(low, high, mode, DOUBLE), "reals"))
            made = exactly(lambda a: a, DOUBLE, SINGLE, mode)
            inputs = "words" if low == 0 else "integers"
            found.append(Row(f"__{name}2float_{mode}(static_cast<{kind}>(a))", made, inputs))
    nan, wide = "float(CUDART_NAN)", -(2.0**63)
    found += [
        Row(f"__float2int_rn({nan})", lambda a, b, c: 0.0, "one"),
        Row(f"__float2ll_rz({nan})", lambda a, b, c: wide, "one"),
        Row(f"__float2ull_rz({nan})", lambda a, b, c: 2.0**63, "one"),
        Row("__float_as_uint(float(a))", lambda a, b, c: float(bits_of(a)), "reals"),
        Row("__int_as_float(__float_as_int(float(a)))", exactly(lambda a: a, SINGLE, SINGLE), "reals"),
        Row("__hiloint2double(__double2hiint(a), __double2loint(a))", exactly(lambda a: a, DOUBLE, DOUBLE), "reals"),
    ]
    return found


def _small() -> list[Row]:
    """16-bit floats."""
    found = []
    for kind, name, form in (("__half", "half", HALF), ("__nv_bfloat16", "bfloat16", BFLOAT16)):
        x, y, z = (f"{kind}(float({name}))" for name in "abc")
        pair = f"__halves2{name}2"
        for expression, operation in (
            (f"float({x} + {y})", lambda a, b: a + b),
            (f"float({x} - {y})", lambda a, b: a - b),
            (f"float({x} * {y})", lambda a, b: a * b),
            (f"float({x} / {y})", lambda a, b: a / b),
            (f"float(__hadd({x}, {y}))", lambda a, b: a + b),
            (f"float(__hfma({x}, {y}, {z}))", lambda a, b, c: a * b + c),
            (f"__high2float(__hfma2({pair}({z}, {x}), {pair}({x}, {y}), {pair}({y}, {z})))", lambda a, b, c: a * b + c),
            (f"__low2float(__hmul2({pair}({x}, {y}), {pair}({y}, {y})))", lambda a, b: a * b),
            (f"float(__hneg({x}))", lambda a: -a),
            (f"float(__habs({x}))", lambda a: abs(a)),
            (f"float(__hmax({x}, {y}))", lambda a, b: max(a, b)),
            (f"float(__hmin({x}, {y}))", lambda a, b: min(a, b)),
            (f"__hlt({x}, {y})", lambda a, b: Fraction(a < b)),
            (f"{x} >= {y}", lambda a, b: Fraction(a >= b)),
            (f"__hbne2({pair}({x}, {x}), {pair}({y}, {y}))", lambda a, b: Fraction(a != b)),
        ):
            found.append(Row(expression, _of_single(operation, form), "small"))
        for mode in MODES:
            narrow = exactly(lambda a: of(SINGLE, float(a)), DOUBLE, form, mode)
            found.append(Row(f"float(__float2{name}_{mode}(float(a)))", narrow, "reals"))
            found.append(Row(f"__{name}2int_{mode}({x})", _small_to_integer(mode, form), "small"))
        double = exactly(lambda a: a, DOUBLE, form)
        found.append(Row(f"float(__double2{name}(a))", double, "reals"))
        found.append(Row(f"float({kind}(static_cast<long long>(a)))", double, "integers"))
    found.append(Row("float(hsqrt(__half(float(a))))", square_root(HALF), "small"))
    return found


def _of_single(operation: Callable[..., Fraction], form: Format) -> Reference:
    """Operands are rounded to float before the format."""
    count = operation.__code__.co_argcount

    def reference(a: float, b: float, c: float) -> float | None:
        operands = [rounded(of(SINGLE, x), form) for x in (a, b, c)[:count]]
        if not all(map(math.isfinite, operands)):
            return None
        try:
            return rounded(operation(*map(Fraction, operands)), form)
        except ZeroDivisionError:
            return None

    return reference


def _small_to_integer(mode: str, form: Format) -> Reference:
    def reference(a: float, b: float, c: float) -> float | None:
        x = rounded(of(SINGLE, a), form)
        return saturating(-(1 << 31), (1 << 31) - 1, mode, DOUBLE)(x, b, c) if math.isfinite(x) else None

    return reference


def _integers() -> list[Row]:
    u, v, w = (f"static_cast<unsigned>({name})" for name in "abc")
    i, j = ("static_cast<int>(a)", "static_cast<int>(b)")
    l, m = ("static_cast<unsigned long long>(a)", "static_cast<unsigned long long>(b)")  # noqa: E741
    words: tuple[tuple[str, Callable[..., int]], ...] = (
        (f"__popc({u})", lambda a: a.bit_count()),
        (f"__popcll({l} * {m})", lambda a, b: (a * b % U64).bit_count()),
        (f"__clz(static_cast<int>({u}))", lambda a: 32 - a.bit_length()),
        (f"__clzll(static_cast<long long>({l}))", lambda a: 64 - a.bit_length()),
        (f"__ffs(static_cast<int>({u}))", lambda a: (a & -a).bit_length()),
        (f"__ffsll(static_cast<long long>({l} << 20))", lambda a: (a << 20 & -(a << 20)).bit_length()),
        (f"__brev({u})", lambda a: int(f"{a:032b}"[::-1], 2)),
        (f"__brevll({l}) >> 16", lambda a: int(f"{a:064b}"[::-1], 2) >> 16),
        (f"__byte_perm({u}, {v}, {w})", permuted),
        (f"__funnelshift_l({u}, {v}, {w})", lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32 & U32 - 1),
        (f"__funnelshift_r({u}, {v}, {w})", lambda a, b, c: (b << 32 | a) >> (c & 31) & U32 - 1),
        (f"__funnelshift_lc({u}, {v}, {w} % 40)", lambda a, b, c: ((b << 32 | a) << min(c % 40, 32)) >> 32 & U32 - 1),
        (f"__funnelshift_rc({u}, {v}, {w} % 40)", lambda a, b, c: (b << 32 | a) >> min(c % 40, 32) & U32 - 1),
        (f"__umulhi({u}, {v})", lambda a, b: a * b >> 32),
        (f"__umul64hi({l} << 31, {m} << 31)", lambda a, b: a * b >> 2),
        (f"__umul24({u}, {v})", lambda a, b: (a % (1 << 24)) * (b % (1 << 24)) % U32),
        (f"__usad({u}, {v}, {w})", lambda a, b, c: (abs(a - b) + c) % U32),
        (f"__uhadd({u}, {v})", lambda a, b: (a + b) // 2),
        (f"__urhadd({u}, {v})", lambda a, b: (a + b + 1) // 2),
        (f"__dp4a(static_cast<int>({u}), static_cast<int>({v}), static_cast<int>({w}))", dot),
        (
            f"__dp2a_hi({u}, {v}, {w})",
            lambda a, b, c: (c + (a % 65536) * (b >> 16 & 255) + (a >> 16) * (b >> 24)) % U32,
        ),
        (f"__vadd4({u}, {v})", lambda a, b: lanes(lambda x, y: x + y, 8)(a, b)),
        (f"__vsub2({u}, {v})", lambda a, b: lanes(lambda x, y: x - y, 16)(a, b)),
        (f"__vabsdiffu4({u}, {v})", lambda a, b: lanes(lambda x, y: abs(x - y), 8)(a, b)),
        (f"__vabsdiffs4({u}, {v})", lambda a, b: lanes(lambda x, y: abs(x - y), 8, True)(a, b)),
        (f"__vmaxs4({u}, {v})", lambda a, b: lanes(max, 8, True)(a, b)),
        (f"__vavgs2({u}, {v})", lanes(lambda x, y: (x + y + (x + y >= 0)) // 2, 16, True)),
        (f"__vavgs4({u}, {v})", lanes(lambda x, y: (x + y + (x + y >= 0)) // 2, 8, True)),
        (f"__vavgu4({u}, {v})", lambda a, b: lanes(lambda x, y: (x + y + 1) // 2, 8)(a, b)),
        (f"__vsubss4({u}, {v})", lanes(lambda x, y: min(max(x - y, -128), 127), 8, True)),
        (f"__vaddss2({u}, {v})", lanes(lambda x, y: min(max(x + y, -32768), 32767), 16, True)),
        (f"__vaddus4({u}, {v})", lanes(lambda x, y: min(x + y, 255), 8)),
        (f"__vsubus2({u}, {v})", lanes(lambda x, y: max(x - y, 0), 16)),
        (f"__vhaddu2({u}, {v})", lanes(lambda x, y: (x + y) // 2, 16)),
        (f"__vmins2({u}, {v})", lanes(min, 16, True)),
        (f"__vcmpne4({u}, {v})", lanes(lambda x, y: -(x != y), 8)),
        (f"__vcmpgts2({u}, {v})", lanes(lambda x, y: -(x > y), 16, True)),
        (f"__vsetleu4({u}, {v})", lanes(lambda x, y: int(x <= y), 8)),
        (f"__vabs4({u})", lambda a: lanes(lambda x, _: abs(x), 8, True)(a, 0)),
        (f"__vabsss2({u})", lambda a: lanes(lambda x, _: min(abs(x), 32767), 16, True)(a, 0)),
        (f"__vneg2({u})", lambda a: lanes(lambda x, _: -x, 16, True)(a, 0)),
        (f"__vnegss4({u})", lambda a: lanes(lambda x, _: min(-x, 127), 8, True)(a, 0)),
        (f"__vsads4({u}, {v})", lambda a, b: sum(abs(signed(a >> at, 8) - signed(b >> at, 8)) for at in BYTES)),
        (f"__vsadu4({u}, {v})", lambda a, b: sum(abs((a >> at & 255) - (b >> at & 255)) for at in BYTES)),
        (f"__fns({u} | 0x10, 4, 1)", lambda a: 4),
        (f"max(-1, {u})", lambda a: U32 - 1),
    )
    numbers: tuple[tuple[str, Callable[..., int]], ...] = (
        (f"__mulhi({i}, {j})", lambda a, b: a * b >> 32),
        (f"__mul64hi({i} * (1ll << 31), {j} * (1ll << 31))", lambda a, b: a * b >> 2),
        (f"__mul24({i}, {j})", lambda a, b: signed(signed(a, 24) * signed(b, 24))),
        (f"__sad({i}, {j}, 5u)", lambda a, b: (abs(a - b) + 5) % U32),
        (f"__hadd({i}, {j})", lambda a, b: a + b >> 1),
        (f"__rhadd({i}, {j})", lambda a, b: a + b + 1 >> 1),
        (f"min({i}, {j})", lambda a, b: min(a, b)),
        (f"max(static_cast<long long>({i}), {j} * 1ll)", lambda a, b: max(a, b)),
    )
    return [
        *(Row(expression, integer(function), "words") for expression, function in words),
        *(Row(expression, integer(function), "integers") for expression, function in numbers),
    ]


def _dpx() -> list[Row]:
    """The largest or smallest of several integers, of each width and sign."""
    rows = []
    for name, best in (("max", max), ("min", min)):
        for parts, bits, sign in (("s32", 32, True), ("u32", 32, False), ("s16x2", 16, True), ("u16x2", 16, False)):
            rows += _dpx_of(name, best, parts, bits, sign)
    return rows


def _dpx_of(name: str, best: Callable[..., int], parts: str, bits: int, sign: bool) -> list[Row]:
    def wrapped(x: int) -> int:
        return signed(x, bits) if sign else x % (1 << bits)

    def of(operation: Callable[..., int], count: int) -> Reference:
        return lambda a, b, c: float(in_lanes(operation, bits, sign, *map(int, (a, b, c)[:count])))

    def chosen(a: float, b: float, c: float) -> float:
        same = in_lanes(lambda x, y: int(best(x, y) == x), bits, sign, int(a), int(b))
        return float(same >> 15 | same & 1)

    u, v, w = (f"{'int' if parts == 's32' else 'unsigned'}(unsigned({each}))" for each in "abc")
    flags = "&p, &q" if bits == 16 else "&q"
    found: list[tuple[str, Reference]] = [
        (f"__vi{name}3_{parts}({u}, {v}, {w})", of(best, 3)),
        (f"__viadd{name}_{parts}({u}, {v}, {w})", of(lambda x, y, z: best(wrapped(x + y), z), 3)),
        (f"[&] {{ bool p, q; return __vib{name}_{parts}({u}, {v}, {flags}); }}()", of(best, 2)),
        (f"[&] {{ bool p = 0, q; __vib{name}_{parts}({u}, {v}, {flags}); return 2 * p + q; }}()", chosen),
    ]
    if sign:
        found += [
            (f"__vi{name}_{parts}_relu({u}, {v})", of(lambda x, y: max(best(x, y), 0), 2)),
            (f"__vi{name}3_{parts}_relu({u}, {v}, {w})", of(lambda x, y, z: max(best(x, y, z), 0), 3)),
            (f"__viadd{name}_{parts}_relu({u}, {v}, {w})", of(lambda x, y, z: max(best(wrapped(x + y), z), 0), 3)),
        ]
    return [Row(f"unsigned({expression})", reference, "words") for expression, reference in found]


def _reals() -> list[Row]:
    mp = mpmath
    functions: tuple[tuple[str, Callable[..., object], str], ...] = (
        ("rsqrt({a})", lambda a: 1 / mp.sqrt(a), "positive"),
        ("rcbrt({a})", lambda a: 1 / mp.cbrt(a), "positive"),
        ("sinpi({a})", lambda a: mp.sinpi(a), "angles"),
        ("cospi({a})", lambda a: mp.cospi(a), "angles"),
        ("exp10({a})", lambda a: mp.mpf(10) ** a, "angles"),
        ("erfinv({a})", lambda a: mp.erfinv(a), "fractions"),
        ("erfcinv({a})", lambda a: mp.erfinv(1 - a), "fractions"),
        ("erfcx({a})", lambda a: mp.exp(a * a) * mp.erfc(a), "fractions"),
        ("normcdf({a})", lambda a: mp.ncdf(a), "angles"),
        ("normcdfinv({a})", lambda a: mp.sqrt(2) * mp.erfinv(2 * a - 1), "fractions"),
        ("norm3d{f}({a}, {b}, {c})", lambda a, b, c: mp.sqrt(a * a + b * b + c * c), "positive"),
        ("rnorm3d{f}({a}, {b}, {c})", lambda a, b, c: 1 / mp.sqrt(a * a + b * b + c * c), "positive"),
        ("rhypot{f}({a}, {b})", lambda a, b: 1 / mp.sqrt(a * a + b * b), "positive"),
        ("cyl_bessel_i0{f}({a})", lambda a: mp.besseli(0, a), "fractions"),
        (
            "[&] {{ {t} s, c; sincospi({a}, &s, &c); return 2 * s + c; }}()",
            lambda a: 2 * mp.sinpi(a) + mp.cospi(a),
            "fractions",
        ),
        ("[&] {{ {t} s, c; sincos({a}, &s, &c); return c; }}()", lambda a: mp.cos(a), "fractions"),
    )
    found = []
    for text, function, inputs in functions:
        for kind, suffix, form in (("double", "", DOUBLE), ("float", "f", SINGLE)):
            operands = {name: f"{kind}({name})" for name in "abc"}
            expression = text.format(**operands, f=suffix, t=kind)
            found.append(Row(expression, real(function, form), inputs, 2, kind == "float"))
    single: tuple[tuple[str, Callable[..., object], str], ...] = (
        ("rsqrtf(float(a))", lambda a: 1 / mp.sqrt(a), "positive"),
        ("__expf(float(a))", lambda a: mp.exp(a), "angles"),
        ("__logf(float(a))", lambda a: mp.log(a), "positive"),
        ("__fdividef(float(a), float(b))", lambda a, b: a / b, "fractions"),
        ("__saturatef(float(a))", lambda a: min(max(a, mp.mpf(0)), mp.mpf(1)), "angles"),
        ("__frsqrt_rn(float(a))", lambda a: 1 / mp.sqrt(a), "positive"),
        ("fmaxf(max(float(a), CUDART_NAN_F), CUDART_NAN_F)", lambda a: a, "fractions"),
    )
    return found + [Row(text, real(function, SINGLE), inputs, 1, True) for text, function, inputs in single]
