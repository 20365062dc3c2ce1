"""The results of operators and functions of numbers; see semantics.py."""

import cmath
import math

import numpy as np
from numba import boolean, cuda, float32, float64, int32, int64, uint8, uint32, uint64
from numba.cuda import libdevice

FACTOR = 3
SIGNED = -1
SCALE = 0.5


@cuda.jit
def floor_divide(x, y, out):
    i = cuda.grid(1)
    out[i] = x[i] // y[i]


@cuda.jit
def to_booleans(x, y, out):
    i = cuda.grid(1)
    out[i] = (boolean(x[i]) ^ bool(y[i])) + 2 * (boolean(y[i]) & (x[i] > 0))


@cuda.jit
def modulo(x, y, out):
    i = cuda.grid(1)
    out[i] = x[i] % y[i]


@cuda.jit
def true_divide(x, y, out):
    i = cuda.grid(1)
    out[i] = x[i] / y[i]


@cuda.jit
def mixed_types(x, y, out):
    i = cuda.grid(1)
    out[i] = x[i] * y[i] + 1


@cuda.jit
def compares_as_double(x, y, out):
    i = cuda.grid(1)
    out[i] = 1 if x[i] < y[i] + 16777216 else 0


@cuda.jit
def literal_makes_double(x, y, out):
    i = cuda.grid(1)
    out[i] = (x[i] + 0.1) * SCALE - 1


@cuda.jit
def constant_powers(x, y, out):
    i = cuda.grid(1)
    v = x[i]
    out[i] = v**2 + v**3 + v**4 + v**7 + (v * v + 1) ** -2 + 10**-3


@cuda.jit
def shifts_and_masks(x, y, out):
    i = cuda.grid(1)
    out[i] = ((x[i] << 3) ^ (y[i] >> 2)) & 0xFFFF | (~x[i] & 7)


@cuda.jit
def unsigned_words(x, y, out):
    i = cuda.grid(1)
    word = uint32(x[i]) * uint32(y[i])
    word = (word ^ (word >> uint32(3))) & uint32(0xFFFFFFFF)
    out[i] = word


@cuda.jit
def wide_words(x, y, out):
    i = cuda.grid(1)
    state = uint64(x[i]) * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    out[i] = (state >> np.uint64(33)) & np.uint64(0xFFFF)


@cuda.jit
def narrowing(x, y, out):
    i = cuda.grid(1)
    out[i] = uint8(x[i] * 7) + int32(y[i]) * 100000


@cuda.jit
def least_and_largest(x, y, out):
    i = cuda.grid(1)
    out[i] = min(x[i], y[i]) + 10 * max(x[i], 2.5) + min(i, 5, 3)


@cuda.jit
def truncates(x, y, out):
    i = cuda.grid(1)
    out[i] = int(x[i]) + math.floor(x[i]) + math.ceil(x[i]) + round(x[i])


@cuda.jit
def magnitudes(x, y, out):
    i = cuda.grid(1)
    out[i] = abs(x[i]) + abs(y[i]) + math.fabs(x[i])


@cuda.jit
def mathematics(x, y, out):
    i = cuda.grid(1)
    v = math.fabs(x[i]) + 1
    out[i] = math.sqrt(v) + math.log(v) + math.exp(-v) + math.sin(v) + math.hypot(v, 2.0) + math.atan2(v, x[i])


@cuda.jit
def least_of_nan(x, y, out):
    i = cuda.grid(1)
    v = float32(math.inf) if i % 3 else x[i]
    v -= v if i % 2 else float32(0)  # a nan, or 0
    w = float64(y[i]) if i % 5 else math.nan
    out[i] = min(v, float32(2)) + 10 * max(float32(-1), v) + 100 * min(max(v, 0.0), 1.0) + 1000 * min(w, v, 2.5)
    out[i] += max(w, w - w, y[i]) if w > 0 else 0
    if max(w, y[i]) != max(w, y[i]):
        out[i] += 7
    if max(y[i], w, 1.5) == 1.5:
        out[i] -= 70


@cuda.jit
def of_nan(x, y, out):
    i = cuda.grid(1)
    v = math.nan if i % 2 == 0 else math.inf
    out[i] = (1 if math.isnan(v) else 0) + (2 if math.isinf(v) else 0) + (4 if v == v else 0)


@cuda.jit
def logic_gives_an_operand(x, y, out):
    i = cuda.grid(1)
    a = y[i]
    b = i - 3
    out[i] = (a and b) + 10 * (a or 4) + (1 if not a else 0)


@cuda.jit
def chained_comparisons(x, y, out):
    i = cuda.grid(1)
    out[i] = 1 if -1 < x[i] <= 1 < 2 else 0


@cuda.jit
def in_place(x, y, out):
    i = cuda.grid(1)
    out[i] = 10
    out[i] += x[i]
    out[i] *= 2
    out[i] -= y[i]
    v = y[i]
    v //= 2
    v <<= 2
    v |= 1
    out[i] += v


@cuda.jit
def elements_in_place(x, y, out):
    i = cuda.grid(1)
    own = cuda.local.array(6, np.int32)
    for k in range(6):
        own[k] = x[i] * 1000003 + k
    own[0] //= 7
    own[1] %= -5
    own[2] **= 3
    own[3] //= y[i]
    own[4] %= y[i]
    own[5] **= y[i] & 3
    for k in range(6):
        out[i] += own[k] * (k + 1)


@cuda.jit
def bytes_in_place(x, y, out):
    i = cuda.grid(1)
    own = cuda.local.array(8, np.uint8)
    for k in range(8):
        own[k] = x[i] * 11 + k + 128
    own[0] //= 3
    own[1] %= 100
    own[2] **= 2
    own[3] <<= y[i] & 7
    own[4] >>= 2
    own[5] &= y[i]
    own[6] |= 300
    own[7] ^= own[6]
    for k in range(8):
        out[i] = out[i] * 3 + own[k]


@cuda.jit
def wide_words_in_place(x, y, out):
    i = cuda.grid(1)
    own = cuda.local.array(5, np.uint64)
    for k in range(5):
        own[k] = np.uint64(x[i]) + np.uint64(2**63 + 12345)
    own[0] //= np.uint64(205)
    own[1] %= np.uint64(7)
    own[2] **= np.uint64(2)
    own[3] //= y[i] & 7
    own[4] >>= np.uint64(3)
    for k in range(5):
        out[i] += own[k] / (k + 1)


@cuda.jit
def floats_in_place(x, y, out):
    i = cuda.grid(1)
    own = cuda.local.array(5, np.float32)
    for k in range(5):
        own[k] = x[i] + k
    own[0] //= 0.3
    own[1] %= 0.7
    own[2] **= 2
    own[3] //= y[i]
    own[4] %= x[31 - i]
    for k in range(5):
        out[i] += own[k] * (k + 1)


@cuda.jit
def truths_in_place(x, y, out):
    i = cuda.grid(1)
    own = cuda.local.array(4, np.bool_)
    for k in range(4):
        own[k] = x[i] > k
    own[0] &= y[i] > 0
    own[1] |= y[i] > 2
    own[2] ^= True
    own[3] //= 2
    for k in range(4):
        out[i] = out[i] * 2 + own[k]


@cuda.jit
def quotient_and_rest(x, y, out):
    i = cuda.grid(1)
    q, r = divmod(y[i], 3)
    p, s = divmod(x[i], y[i])
    out[i] = q + 10 * r + 100 * p + 1000 * s


@cuda.jit
def reversed_bits(x, y, out):
    i = cuda.grid(1)
    out[i] = cuda.brev(uint32(x[i])) + cuda.brev(np.uint64(y[i]))


@cuda.jit
def complex_numbers(x, y, out):
    i = cuda.grid(1)
    z = complex(x[i], y[i] + 1)
    w = z * (2 - 1j) + z.conjugate() / (z + 3.5) - 1
    if w == z or z != z:
        w += 100
    w *= 0.5j
    v = np.complex64(w)
    out[i] = w.real + 2 * w.imag + abs(z) + abs(v) + v.real * 3 + cmath.phase(z) + (-v).imag


@cuda.jit
def parts_of_real_numbers(x, y, out):
    i = cuda.grid(1)
    out[i] = x[i].real + (x[i] * 2.5).imag + y[i].real * 3 + y[i].imag


@cuda.jit
def complex_functions(x, y, out):
    i = cuda.grid(1)
    z = complex(x[i] * 0.5, y[i] * 0.25 + 0.1)
    e = cmath.exp(z) + cmath.sqrt(z) + cmath.log(z + 5) + cmath.rect(2.0, x[i] + 0.0)
    w = cmath.sin(z) * cmath.cos(z) + cmath.sinh(z) * cmath.cosh(z)
    out[i] = e.real + 2 * e.imag + w.real + 4 * w.imag + cmath.isnan(z) + cmath.isfinite(e)


@cuda.jit
def half_numbers(x, y, out):
    i = cuda.grid(1)
    h = np.float16(x[i])
    k = h * h + h / np.float16(3) - np.float16(0.1)
    k += h + math.tanh(h) * np.float16(0.3) - +k
    if h > k or h < 0 or not h:
        k = -abs(k)
    out[i] = k + x[i] + y[i] * h + math.floor(h) + np.int64(k) + max(h, k) + np.float16(y[i])


@cuda.jit
def half_arrays(x, y, out):
    i = cuda.grid(1)
    own = cuda.local.array(3, np.float16)
    own[0] = x[i]
    own[1] = own[0] * own[0]
    own[2] = y[i]
    own[1] += own[2]
    own[0] *= 3
    out[i] = own[0] + own[1] + cuda.fp16.hfma(own[0], own[1], own[2]) + cuda.fp16.hmax(own[0], own[2])


@cuda.jit
def integer_powers(x, y, out):
    i = cuda.grid(1)
    n = y[i] & 15
    out[i] = x[i] ** n + np.int32(3) ** np.int32(n) + np.uint32(5) ** n + (2 - 3 * (i & 1)) ** y[i]


@cuda.jit
def powers_of_floats(x, y, out):
    i = cuda.grid(1)
    out[i] = x[i] ** y[i] + (x[i] * 2.0) ** np.uint8(i & 7) + abs(x[i]) ** 1.5


@cuda.jit
def libdevice_calls(x, y, out):
    i = cuda.grid(1)
    a = abs(x[i]) + float32(0.5)
    s, c = libdevice.sincos(a * 1.0)
    q, e = libdevice.frexpf(a)
    whole = libdevice.mulhi(int32(y[i]) * 100000000, 77777) + libdevice.float2int_rz(x[i]) + libdevice.float_as_int(a)
    out[i] = s + 2 * c + q * e + whole + libdevice.dadd_rn(a, 0.1) + libdevice.fminf(a, x[i]) + libdevice.isnanf(a)


@cuda.jit
def signs_of_the_least(x, y, out):
    i = cuda.grid(1)
    byte = np.int8(x[i] // 1000 - 128)
    word = np.int32(x[i] // 1000 - 2**31)
    out[i] = -byte + abs(byte) * 3.0 + -word / 2 + abs(word) * 5.0 + (y[i] & -word)


@cuda.jit
def quotients_of_wide_words(x, y, out):
    i = cuda.grid(1)
    word = np.uint64(x[i]) + np.uint64(2**63 + 12345)
    power = word**2
    out[i] = word // 205 + word % 7 + 2 // (power | 1) + (y[i] // (word | 1)) * 3


@cuda.jit
def larger_of_wide_words(x, y, out):
    i = cuda.grid(1)
    out[i] = max(np.uint64(x[i]) + np.uint64(2**63 + 12345), y[i]) / 2


@cuda.jit
def unsigned_signs(x, y, out):
    i = cuda.grid(1)
    b = np.uint8(x[i] + 20)
    w = np.uint32(i + 3)
    out[i] = ~b + 1000 * (-b) + 0.5 * (~w) + 0.25 * (-w) + np.uint8(-268 + SIGNED) + ~np.uint16(7)


@cuda.jit
def functions_of_numpy(x, y, out):
    i = cuda.grid(1)
    v = float64(x[i])
    w = np.abs(v) + 0.5
    out[i] = np.sqrt(w) + np.exp(-w) * np.sin(v) + np.log(w) - np.arctan2(v, 2.0) + np.hypot(v, w) + np.pi
    out[i] += np.floor(v) * 3 + np.ceil(v) - np.trunc(v * 3) + np.rint(v) + np.sign(v) + np.square(v)
    out[i] += np.maximum(v, 0.3) - np.minimum(v, w - 2) + np.fmax(v, np.nan) + np.deg2rad(v) + np.degrees(w)


@cuda.jit
def functions_of_numpy_of_floats(x, y, out):
    i = cuda.grid(1)
    out[i] = np.floor(x[i]) * 5 + np.sign(x[i]) + np.maximum(x[i], x[31 - i]) + np.fabs(x[i])
    if np.isnan(x[i] * np.inf) or np.isinf(x[i]):
        out[i] = 3
    out[i] += np.isnan(np.maximum(x[i] * 0, float32(math.nan)))


@cuda.jit
def functions_of_numpy_of_integers(x, y, out):
    i = cuda.grid(1)
    out[i] = np.abs(x[i]) + np.maximum(x[i], y[i]) * 3 - np.minimum(x[i], 2) + np.sign(y[i]) + np.square(x[i])
    out[i] += np.sqrt(np.abs(y[i])) + np.sin(y[i])


@cuda.jit
def operators_of_numpy(x, y, out):
    i = cuda.grid(1)
    byte, short = uint8(x[i]), np.int16(y[i])
    out[i] = np.bitwise_and(byte, 7) + np.bitwise_or(x[i], y[i]) * 3 - np.bitwise_xor(byte, short)
    out[i] += np.bitwise_and(x[i] > 2, y[i] > 2) * 1000


@cuda.jit
def words_for_floats(x, y, out):
    i = cuda.grid(1)
    best = -float("inf")
    if x[i] > best and x[i] < float("inf"):
        best = x[i]
    out[i] = best if i % 3 else float("nan")


@cuda.jit
def angles_and_parts(x, y, out):
    i = cuda.grid(1)
    v = float64(x[i])
    mantissa, exponent = math.frexp(v)
    fraction, whole = math.modf(v * 3)
    out[i] = math.degrees(v) + math.radians(v) + mantissa * 8 + exponent + math.ldexp(v, 3)
    out[i] += fraction + whole * 2 + math.remainder(v, 0.7) + pow(v, 3) + pow(int64(y[i]), 2) + pow(2, 3)


@cuda.jit
def rounds_to_decimals(x, y, out):
    i = cuda.grid(1)
    v = float64(x[i]) * 1.37
    out[i] = round(v, 2) * 7 + round(v * 1000, -2) + round(v + 0.5, 0)


_OF_INTEGERS = (
    floor_divide,
    modulo,
    true_divide,
    shifts_and_masks,
    unsigned_words,
    wide_words,
    narrowing,
    logic_gives_an_operand,
    reversed_bits,
    integer_powers,
    quotients_of_wide_words,
    larger_of_wide_words,
    functions_of_numpy_of_integers,
    operators_of_numpy,
    elements_in_place,
    bytes_in_place,
    wide_words_in_place,
    truths_in_place,
)
_OF_FLOATS = (
    mixed_types,
    compares_as_double,
    literal_makes_double,
    constant_powers,
    least_and_largest,
    truncates,
    magnitudes,
    mathematics,
    of_nan,
    least_of_nan,
    chained_comparisons,
    in_place,
    floats_in_place,
    quotient_and_rest,
    complex_numbers,
    complex_functions,
    parts_of_real_numbers,
    half_numbers,
    half_arrays,
    powers_of_floats,
    libdevice_calls,
    signs_of_the_least,
    unsigned_signs,
    functions_of_numpy,
    functions_of_numpy_of_floats,
    words_for_floats,
    angles_and_parts,
    rounds_to_decimals,
    to_booleans,
)

#: Each kernel, and the types of x and y.
KERNELS = {
    **dict.fromkeys(_OF_INTEGERS, (np.int64, np.int64)),
    **dict.fromkeys(_OF_FLOATS, (np.float32, np.int64)),
}
