"""The meaning of statements, tuples and arrays; see semantics.py."""

import math

import numpy as np
from numba import cuda, float32, float64, int32, int64, uint32

FACTOR = 3
INT_MAX = 2**31 - 1
M_PI = 3.25
UINT8_MAX = (1, 2, 4)
SIGNED = -1
SCALE = 0.5
_TABLE = (2, 3, 5, 7)
_MATRIX = ((1, -2, 3), (4, 5, -6))
_WEIGHTS = np.array([[0.5, 1.5], [2.5, -3.5], [4.5, 1e300]])


@cuda.jit
def a_variable_changes_its_type(x, y, out):
    i = cuda.grid(1)
    t = x[i]
    s = t * t
    t = t * 1.5
    for k in range(3):
        t += k * s
    out[i] = t


@cuda.jit
def comments_that_end_in_backslashes(x, y, out):
    """Takes A \\ b \\"""
    i = cuda.grid(1)
    total = x[i]
    if total > 0:  # as in A \ b \
        total += 1
    # a corner /\
    total *= 2
    out[i] = total


@cuda.jit
def names_of_macros(x, y, out):
    i = cuda.grid(1)
    NULL, errno = x[i], cuda.threadIdx.x
    out[i] = INT_MAX - y[i] + NULL * M_PI + UINT8_MAX[errno % 3]


@cuda.jit
def counts_then_adds(x, y, out):
    i = cuda.grid(1)
    total = 0
    for k in range(5):
        total += x[i] * k
    out[i] = total


@cuda.jit
def loop_variable_lives_on(x, y, out):
    i = cuda.grid(1)
    k = -1
    for k in range(0, y[i], 2):
        if k > 5:
            break
    out[i] = k


@cuda.jit
def loop_variable_is_changed(x, y, out):
    i = cuda.grid(1)
    total = 0
    for k in range(6):
        total += k
        k *= 10
        total += k
    out[i] = total


@cuda.jit
def downwards(x, y, out):
    i = cuda.grid(1)
    total = 0
    for k in range(i, -1, -2):
        total = total * 3 + k
    out[i] = total


@cuda.jit
def step_of_either_sign(x, y, out):
    i = cuda.grid(1)
    step = 2 if i % 2 == 0 else -3
    total = 0
    for k in range(y[i], 5, step):
        total += k + 100
        if total > 2000:
            break
    out[i] = total


@cuda.jit
def bound_is_computed_once(x, y, out):
    i = cuda.grid(1)
    n = 4
    total = 0
    for k in range(n):
        n += 1
        total += k
    out[i] = total + n


@cuda.jit
def loop_else(x, y, out):
    i = cuda.grid(1)
    found = 0
    for k in range(10):
        if k == y[i]:
            found = k + 100
            break
    else:
        found = -7
    n = i
    while n > 3:
        n -= 3
        if n == 7:
            break
    else:
        found += 1000
    out[i] = found + n


@cuda.jit
def continues(x, y, out):
    i = cuda.grid(1)
    total = 0
    k = 0
    while True:
        k += 1
        if k % 3 == 0:
            continue
        if k > 20:
            break
        total += k
    out[i] = total


@cuda.jit
def swaps(x, y, out):
    i = cuda.grid(1)
    a, b = 1, i
    for _ in range(5):
        a, b = b, a + b
    out[i] = a


@cuda.jit(device=True)
def both(a, b):
    return a + b, a * b


@cuda.jit(device=True)
def twice(a):
    """As much again."""
    return 2 * a


@cuda.jit
def device_functions(x, y, out):
    i = cuda.grid(1)
    added, times = both(x[i], 2.0)
    p, q = both(i, y[i])
    out[i] = added + times + p * q + twice(i) + twice(x[i])


@cuda.jit
def tuples(x, y, out):
    i = cuda.grid(1)
    weights = (0.5, 0.25, 0.125, 1.0)
    total = 0.0
    for k in range(4):
        total += weights[k] * _TABLE[2]
    for w in (1, 10, 100):
        total += w * i
    out[i] = total


@cuda.jit
def local_arrays(x, y, out):
    i = cuda.grid(1)
    own = cuda.local.array((2, FACTOR), float32)
    for r in range(2):
        for c in range(FACTOR):
            own[r, c] = x[i] * r + c
    own[1, 2] += 0.1
    out[i] = own[0, 1] + own[1, 2]


@cuda.jit
def shared_arrays(x, y, out):
    held = cuda.shared.array(32, float64)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    held[t] = x[i]
    cuda.syncthreads()
    out[i] = held[31 - t] + cuda.blockDim.x


@cuda.jit
def warp_operations(x, y, out):
    i = cuda.grid(1)
    v = x[i]
    for distance in (16, 8, 4, 2, 1):
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, distance)
    mask = cuda.ballot_sync(0xFFFFFFFF, y[i] > 0)
    out[i] = v + (mask & 0xFF) + cuda.popc(mask) + (1 if mask < 0 else 0)


@cuda.jit
def atomics(x, y, out):
    sums = cuda.shared.array(1, int64)
    if cuda.threadIdx.x == 0:
        sums[0] = 5
    cuda.syncthreads()
    cuda.atomic.add(sums, 0, y[cuda.grid(1)])
    cuda.syncthreads()
    cuda.atomic.max(sums, 0, 3)
    cuda.syncthreads()
    out[cuda.grid(1)] = sums[0]


@cuda.jit
def several_targets(x, y, out):
    own = cuda.local.array(4, float64)
    i = cuda.grid(1)
    a = own[0] = b = x[i]
    own[1], own[0] = own[0] + 1, y[i]
    own[0], own[1], a = own[1], own[0], a + len(own)
    out[i] = own[0] + 10 * own[1] + 100 * a + b + cuda.laneid


@cuda.jit
def an_element_is_the_first_target(x, y, out):
    own = cuda.local.array(3, float32)
    i = cuda.grid(1)
    own[0] = own[1] = v = x[i] / 3.0
    own[2] = w = 1
    out[i] = own[0] + own[1] + v + own[2] + w


@cuda.jit
def atomics_of_floats(x, y, out):
    single = cuda.shared.array(3, float32)
    double = cuda.shared.array(2, float64)
    words = cuda.shared.array(2, uint32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    if t == 0:
        single[0] = single[1] = double[0] = double[1] = 0.25
        single[2] = math.nan
        words[0] = 7
        words[1] = 3
    cuda.syncthreads()
    cuda.atomic.max(single, 0, x[i])
    cuda.atomic.min(single, 1, x[i])
    cuda.atomic.max(single, 2, x[i])
    cuda.atomic.max(double, 0, x[i] * 2.5)
    cuda.atomic.min(double, 1, x[i] - 0.5)
    cuda.atomic.inc(words, 0, 9)
    cuda.atomic.dec(words, 1, 12)
    cuda.syncthreads()
    out[i] = single[0] + single[1] + double[0] + double[1] + 10 * words[0] + 1000 * words[1] + math.isnan(single[2])


@cuda.jit
def constant_arrays(x, y, out):
    i = cuda.grid(1)
    weights = cuda.const.array_like(_WEIGHTS)
    total = weights[i % weights.shape[0], 1] + _WEIGHTS[1, 0] + weights.size
    for k in range(len(_MATRIX)):
        total += _MATRIX[k][(i + k) % 3] * _TABLE[i % 4] + _MATRIX[1][2]
    out[i] = total


@cuda.jit(device=True)
def added(values):
    s = 0.0
    for v in values:
        s = 2 * s + v
    return s + values.shape[0]


@cuda.jit
def parts_of_arrays(x, y, out):
    own = cuda.local.array((4, 6), float64)
    i = cuda.grid(1)
    own[:, :] = 0.5
    own[1, 1:5] = x[i] + 0.25
    own[3, ::2] = i
    own[2] = 7
    n = i % 9
    row = own[1, n % 3 : n]
    n = 100
    every = own[:, 1:6:2]
    total = row.size + 10 * every.shape[1] + every[1, 1] + len(x[2 : i + 1]) + x[i % 3 : 30 : 4].size
    out[i] = total + added(own[1]) + added(own[:, 2]) + added(own[3, 1::3]) + added(row) + added(x[5:-20]) + n


@cuda.jit
def loop_over_an_array(x, y, out):
    i = cuda.grid(1)
    v = -1.0
    for v in x[1 : i % 7]:
        if v > 2:
            break
    total = 0.0
    for w in y:
        total = total * 0.5 + w
    out[i] = v + total


@cuda.jit(device=True)
def rotated(v, k):
    a, b, c = v
    return b * k, c, a


@cuda.jit
def tuples_as_wholes(x, y, out):
    i = cuda.grid(1)
    v = (x[i] * 1.0, 1.0, 2.0)
    for k in range(y[i] & 3):
        v = rotated(v, k + 1)
    w = rotated(rotated((0.5, 1.5, 2.5), 2), 3)
    mixed = (i, 0.5, x[i])
    out[i] = v[0] + 10 * v[1] + 100 * v[y[i] & 1] + w[1] + len(v) * mixed[1] + mixed[0] + mixed[2]


@cuda.jit
def several_dynamic_arrays(x, y, out):
    doubles = cuda.shared.array(0, float64)
    words = cuda.shared.array(0, int32)[64:]
    t = cuda.threadIdx.x
    doubles[t] = x[t]
    words[t] = y[t]
    cuda.syncthreads()
    out[cuda.grid(1)] = doubles[31 - t] + 100 * words[31 - t]


@cuda.jit
def grid_of_two_dimensions(x, y, out):
    i, j = cuda.grid(2)
    place = cuda.grid(2)
    width, height = cuda.gridsize(2)
    out[i] = i + 100 * j + place[0] * 2 + place[1] + width * 1000 + height * 10000


@cuda.jit
def joins_of_several_types(x, y, out):
    i = cuda.grid(1)
    n = np.int8(i)
    if y[i] > 2:
        n = np.int16(i * 300)  # type: ignore[assignment]
    m = n * 2
    for k in range(3):
        if k == i % 3:
            n = np.int64(m) << 20  # type: ignore[assignment]
    c = np.complex64(x[i])
    if y[i] > 4:
        c = c * 1j  # type: ignore[assignment]
    out[i] = n + m + c.real


@cuda.jit
def joins_of_a_constant(x, y, out):
    i = cuda.grid(1)
    f = 1 + 1
    if y[i] > 2:
        if x[i] > 0:
            f += x[i] / 3
    else:
        k = 0
        while k < i & 3:
            k += 1
            f = f
    out[i] = f


@cuda.jit
def calls_in_chains(x, y, out):
    i = cuda.grid(1)
    chained = -2 < np.int32(x[i] * 2) < np.int32(y[i]) <= abs(y[i]) < twice(y[i]) < 7
    out[i] = chained + 10 * (int(x[i]) or abs(y[i])) + 100 * (max(y[i], 0) and i)


@cuda.jit
def early_return(x, y, out):
    i = cuda.grid(1)
    out[i] = 0
    if x[i] < 0:
        return
    out[i] = 1 if i % 2 else 2


@cuda.jit
def keywords(x, y, out):
    auto = cuda.grid(1)
    new = x[auto]
    double = new + 1
    out[auto] = double * new


@cuda.jit(device=True)
def rsqrt(v):
    return 1 / math.sqrt(v)


@cuda.jit
def names_that_cpp_has(x, y, out):
    i = cuda.grid(1)
    sin = math.sin(x[i])
    floor = math.floor(x[i]) + math.floor(y[i] * 0.3)
    x_length, x_stride, out_length = 3, 5, 7
    int64_t = y[i] + len(x) + out.size
    abs_ = abs(x[i])
    out[i] = sin + math.sin(2 * x[i]) * floor + x_length * x_stride + int64_t + rsqrt(abs_ + 1) + out_length


@cuda.jit
def loop_variable_after_a_break(x, y, out):
    i = cuda.grid(1)
    out[i] = -1
    for outer in range(5):
        for inner in range(5):
            if inner * outer > y[i]:
                break
        else:
            continue
        out[i] = outer * 10 + inner
        break


@cuda.jit
def one_name_for_several_types(x, y, out):
    i = cuda.grid(1)
    h = uint32(y[i])
    h = h ^ (h >> uint32(3))
    h *= uint32(0x85EBCA6B)
    if i % 2:
        h = h ^ (h >> uint32(13))
    t = y[i]
    t = t * 0.5
    s = t
    t = i
    t = s + t
    out[i] = h % uint32(1000003) + t


_OF_FLOATS = (
    names_that_cpp_has,
    loop_variable_after_a_break,
    one_name_for_several_types,
    a_variable_changes_its_type,
    comments_that_end_in_backslashes,
    names_of_macros,
    counts_then_adds,
    loop_variable_lives_on,
    loop_variable_is_changed,
    downwards,
    step_of_either_sign,
    bound_is_computed_once,
    loop_else,
    continues,
    swaps,
    device_functions,
    tuples,
    local_arrays,
    shared_arrays,
    warp_operations,
    atomics,
    several_targets,
    an_element_is_the_first_target,
    atomics_of_floats,
    constant_arrays,
    parts_of_arrays,
    loop_over_an_array,
    tuples_as_wholes,
    several_dynamic_arrays,
    grid_of_two_dimensions,
    joins_of_several_types,
    joins_of_a_constant,
    calls_in_chains,
    early_return,
    keywords,
)

#: Each kernel, and the types of x and y.
KERNELS = {
    **dict.fromkeys(_OF_FLOATS, (np.float32, np.int64)),
}
