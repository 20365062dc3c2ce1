"""The meaning of tuples, sequences, parts of arrays, enumerations and arguments; see semantics.py."""

import enum
import math
import operator
from collections import namedtuple

import numpy as np
from numba import cuda, float32, float64

FACTOR = 3
SIGNED = -1
SCALE = 0.5
_TABLE = (2, 3, 5, 7)


class Op(enum.IntEnum):
    ADD = 1
    MUL = 2
    NEITHER = 7


class Mode(enum.Enum):
    SLOW = 1
    FAST = 5


MODE = Mode.FAST
_WAYS = ((1, 2), (3, 4), (5, 6))
Model = namedtuple("Model", ["scale", "shift", "sizes"])
MODEL = Model(0.5, 3, (2, 4))


@cuda.jit(device=True)
def product_of(pair):
    return pair[0] * pair[1]


@cuda.jit
def parts_of_tuples(x, y, out):
    i = cuda.grid(1)
    table = cuda.local.array((3, 5, 7), float32)
    height, width = table.shape[:2]
    values = (x[i], y[i], 2.5)[::2]
    mixed = (y[i], x[i], 3)
    first, second = mixed[:2]
    rest = (1, 2, 3)[1:]
    for each in rest:
        out[i] += each
    out[i] += height + 10 * width + values[0] + first * second + table.shape[1:][0] + table.shape[-1:][0]
    out[i] += product_of(table.shape[1:]) + product_of(rest[-2:]) + len(table.shape[1:])


@cuda.jit
def lengths_by_variables(x, y, out):
    i = cuda.grid(1)
    table = cuda.local.array((3, 5, 7), float32)
    for d in range(3):
        out[i] += table.shape[d] * (d + 1) + table[1:].shape[2 - d]
    out[i] += x.shape[y[i] * 0] + out.shape[0]


@cuda.jit
def enumerations(x, y, out):
    i = cuda.grid(1)
    if y[i] == Op.ADD:
        out[i] = Op.MUL + x[i]
    elif y[i] >= Op.MUL:
        out[i] = Op.NEITHER * 2 - Op.ADD.value
    else:
        out[i] = Mode.FAST.value if MODE == Mode.FAST else 0


@cuda.jit(device=True)
def clamped(v, low=0.25, high=0.75):
    return min(max(v, low), high)


@cuda.jit(device=True)
def with_bias(v, bias=None, factor=2):
    if bias is not None:
        v += bias
    return v * factor


@cuda.jit
def defaults(x, y, out):
    i = cuda.grid(1)
    v = float64(x[i])
    out[i] = clamped(v) + clamped(v, -1.5) * 3 + clamped(v, -3.0, 3.0) * 5
    out[i] += with_bias(v) + with_bias(v, 0.5) + with_bias(v, None, 3) * 7 + with_bias(v, 1.5, 4)


squared = cuda.jit(device=True)(lambda v: v * v)


@cuda.jit
def lambdas(x, y, out):
    i = cuda.grid(1)
    out[i] = squared(x[i]) + squared(y[i])


@cuda.jit
def absent(x, y, out):
    i = cuda.grid(1)
    total = 0.5
    if x is not None:
        total += x[i]
    if out is None:
        total = y  # of another type
    out[i] = total


@cuda.jit(device=True)
def sum_and_product(a, b):
    return (a + b, a - b), a * b


@cuda.jit
def nested_tuples(x, y, out):
    i = cuda.grid(1)
    (total, rest), product = sum_and_product(x[i], 2.0)
    pair, again = sum_and_product(total, rest)
    (a, b), (c, d) = (total, product), (rest, again)
    (a, b), c = (b, a), c + d
    out[i] = a + b * 3 + c * 5 + pair[0] * 7 + pair[1] * 11


@cuda.jit
def tuples_are_chosen(x, y, out):
    i = cuda.grid(1)
    low, high = (x[i], y[i]) if x[i] < y[i] else (y[i], x[i])
    low, high = (high, low) if i % 2 else (low, high)
    low, high = (high + 1, low) if abs(y[i]) < 3 else (low, high)
    out[i] = low * 3 + high


@cuda.jit
def enumerated(x, y, out):
    i = cuda.grid(1)
    total = 0.0
    for k, factor in enumerate(_TABLE):
        total += k * factor * x[i]
    for k, value in enumerate(x[:5], 2):
        total += k * value
    for k, (a, b) in enumerate(_WAYS):
        if k == 2:
            break
        total += a - b * k
    out[i] = total + k


@cuda.jit
def zipped(x, y, out):
    i = cuda.grid(1)
    total = 0.0
    for a, b in zip(_TABLE, (0.5, 1.5, 2.5)):  # noqa: B905
        total += a * b + x[i]
    for k, (v, w) in enumerate(zip(x, y[3:9])):  # noqa: B905
        total += v * w * k
    for a, b in _WAYS:
        total -= a * b
    out[i] = total


@cuda.jit
def parts_are_assigned(x, y, out):
    i = cuda.grid(1)
    held = cuda.local.array((3, 4), float64)
    row = cuda.local.array(4, float32)
    held[:] = 0.5
    row[:] = x[:4]
    row[1:3] = y[i]
    held[1, :] = row
    held[2, 1:] = row[:-1]
    held[0:1] = row
    total = 0.0
    for r in range(3):
        for c in range(4):
            total = total * 3 + held[r, c]
    out[i] = total


@cuda.jit
def votes_and_matches(x, y, out):
    i = cuda.grid(1)
    same = cuda.match_any_sync(0xFFFFFFFF, y[i])
    lanes, whole = cuda.match_all_sync(0xFFFFFFFF, i * 0 + 3)
    out[i] = cuda.popc(same) + cuda.popc(cuda.lanemask_lt()) * 3 + cuda.any_sync(0xFFFFFFFF, y[i] > 7)
    out[i] += cuda.eq_sync(0xFFFFFFFF, y[i] > 70) * 5 + cuda.eq_sync(0xFFFFFFFF, y[i] > 2) * 7 + cuda.popc(lanes)
    if whole and cuda.popc(cuda.activemask()) == 32:
        out[i] += 100 + cuda.selp(y[i] > 2, 1.5, -2.5)


@cuda.jit(device=True)
def crossed(a, b):
    return cuda.float64x3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


@cuda.jit
def vectors(x, y, out):
    i = cuda.grid(1)
    v = cuda.double3(x[i], x[i] * 2, 3)
    w = cuda.float64x3(1.0, y[i], 0.5)
    single = cuda.float3(1.0, y[i], 0.5)
    pair = cuda.int32x2(y[i], 7)
    if i % 2:
        v = crossed(v, w)
    out[i] = v.x + v.y * 2 + v.z * 3 + pair.x * pair.y + single.y - single.z


@cuda.jit
def pairs_are_looped_over(x, y, out):
    i = cuda.grid(1)
    total = 0
    out[i] = 0
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if (i + down) % 3 == 0:
            continue
        total = total * 3 + down - 2 * right
    for n, (first, second, third) in enumerate(((1, 2.5, y[i]), (4, 0.5, y[31 - i]))):
        out[i] = out[i] * 0.5 + n * first * second - third
    out[i] += total


@cuda.jit
def named_tuples(x, y, out):
    i = cuda.grid(1)
    out[i] = x[i] * MODEL.scale + MODEL.shift + MODEL.sizes[1] + MODEL[1]


def folded_by(combine, start):
    @cuda.jit(device=True)
    def fold(values, n):
        total = start
        for k in range(n):
            total = combine(total, values[k])
        return total

    return fold


summed, joined = folded_by(operator.add, 0), folded_by(operator.xor, 7)


@cuda.jit
def functions_of_operators(x, y, out):
    i = cuda.grid(1)
    out[i] = summed(x, i) + joined(y, i) + operator.neg(y[i]) + operator.lt(x[i], y[i])


@cuda.jit
def characters(x, y, out):
    i = cuda.grid(1)
    c = y[i] + ord("d")
    out[i] = c - ord("a") if ord("a") <= c <= ord("e") else max(ord("'"), c) + ord("\n")


@cuda.jit(device=True)
def larger(best, v, i):
    """The first of two pairs of a number and its place."""
    w, j = best
    if v > w or (v == w and i < j):
        return v, i
    return best


@cuda.jit(device=True)
def places_of(best, factor=2.5):
    return best[0] * factor + best[-1]


@cuda.jit
def pairs_of_several_types(x, y, out):
    i = cuda.grid(1)
    best = (-1e300, 0)
    two = (0, 0.5, y[i] > 2)
    for k in range(i % 5 + 1):
        best = larger(best, float64(x[(i + 7 * k) % 32]), k)
        if k % 2:
            two = (two[0] + k, two[1] * 0.5, not two[2])
    one = best
    other = larger(larger(best, 0.5, 3), float64(y[i]), 1)
    count, half, odd = two
    last = (0, 0)  # of one type, but not where it is assigned again
    if i % 3:
        last = (i, x[i])  # type: ignore[assignment]
    count += last[0] + last[1]
    out[i] = places_of(one) + places_of(other, 7.0) * 3 + count + half + (100 if odd else 0) + len(two)
    out[i] += cuda.gridsize(2)[1] + cuda.grid(2)[0] + sum_and_product(x[i], 2.0)[1]


@cuda.jit
def members_of_tuples(x, y, out):
    i = cuda.grid(1)
    some = (1, i % 5, 2)
    if y[i] in (3, 5):
        out[i] += 1
    if y[i] not in _TABLE:
        out[i] += 10
    if y[i] in some and i not in (3, i % 4):
        out[i] += 100
    out[i] += 1000 * (x[i] in (0.05, 0.35)) + 10000 * (i in (7,))


@cuda.jit
def other_names_of_functions(x, y, out):
    tid, add = cuda.threadIdx, cuda.atomic.add
    root = math.sqrt
    kind = float32
    held = cuda.local.array(4, kind)
    own = product_of
    held[1] = x[tid.x]
    add(held, 1, kind(2.5))
    out[tid.x] = root(kind(abs(held[1]))) + own((y[tid.x], 3))


_OF_FLOATS = (
    members_of_tuples,
    other_names_of_functions,
    parts_of_tuples,
    lengths_by_variables,
    pairs_of_several_types,
    pairs_are_looped_over,
    named_tuples,
    functions_of_operators,
    characters,
    enumerations,
    defaults,
    lambdas,
    absent,
    nested_tuples,
    tuples_are_chosen,
    enumerated,
    zipped,
    parts_are_assigned,
    votes_and_matches,
    vectors,
)

#: Each kernel, and the types of x and y.
KERNELS = {
    **dict.fromkeys(_OF_FLOATS, (np.float32, np.int64)),
}
