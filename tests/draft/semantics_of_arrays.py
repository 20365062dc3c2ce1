"""What variables that are arrays mean, each of which may be several in turn; see semantics.py."""

import numpy as np
from numba import cuda, float64, int64


@cuda.jit
def arrays_change_places(x, y, out):
    i = cuda.grid(1)
    front = cuda.local.array(4, float64)
    back = cuda.local.array(4, float64)
    for k in range(4):
        front[k] = x[(i + k) % 32]
    for turn in range(3):
        for k in range(4):
            back[k] = front[(k + 1) % 4] + turn * front[k]
        front, back = back, front
    out[i] = front[0] + 10 * back[3]


@cuda.jit
def three_arrays_change_places(x, y, out):
    i = cuda.grid(1)
    a = x[i:]
    b = x[:i]
    c = x[3:7]
    for _ in range(i % 4):
        a, b, c = b, c, a
    out[i] = len(a) + 100 * len(b) + 10000 * len(c) + (a[0] if len(a) > 0 else 0)


@cuda.jit
def an_array_is_chosen(x, y, out):
    i = cuda.grid(1)
    if y[i] > 2:
        chosen = x[1::2]
    elif y[i] > 0:
        chosen = x
    else:
        chosen = x[::3]
    total = 0.0
    for k in range(len(chosen)):
        total += chosen[k] * k
    part = x if y[i] % 2 == 0 else x[::4]
    out[i] = total + part.size + part[3]


@cuda.jit
def an_array_gets_shorter(x, y, out):
    i = cuda.grid(1)
    rest = x
    total = 0.0
    while len(rest) > 3:
        before = rest
        rest = rest[2:]
        total = total * 0.5 + rest[0] - before[1] + before.size
        if total > 90:
            break
    for k in range(len(rest)):
        rest = x[k:]
        total += rest[1] + rest.shape[0]
    out[i] = total


@cuda.jit(device=True)
def last_of(values, n):
    while n > 1:
        values = values[1:]
        n -= 1
    return values[0] + len(values)


@cuda.jit
def a_parameter_is_another_array(x, y, out):
    i = cuda.grid(1)
    out[i] = last_of(x, 1 + i % 5)
    if i % 2 == 0:
        x = x[16:]
    out[i] += x[i % 16]


@cuda.jit
def shared_tiles_change_places(x, y, out):
    i = cuda.grid(1)
    now = cuda.shared.array((2, 32), float64)
    then = cuda.shared.array((2, 32), float64)
    now[0, i] = x[i]
    now[1, i] = y[i]
    cuda.syncthreads()
    for _ in range(3):
        then[1, i] = now[0, (i + 1) % 32] - now[1, i]
        then[0, i] = now[1, (i + 5) % 32] * 0.5
        cuda.syncthreads()
        now, then = then, now
    row = now[1]
    out[i] = now[0, i] + row[i] + now.shape[0] * now.size


@cuda.jit
def one_name_for_several_arrays(x, y, out):
    i = cuda.grid(1)
    part = x[i:]
    out[i] = part[0] + len(part)
    part = y
    out[i] += part[i] + len(part)
    part = cuda.local.array(3, int64)
    part[0] = 7
    out[i] += part[0]


@cuda.jit
def arrays_and_numbers_change_places(x, y, out):
    i = cuda.grid(1)
    a, k, n = x, i, 0
    b = x[8:]
    while n < 5:
        a, b, k, n = b, a, len(a) - k, n + 1
    out[i] = a[k % len(a)] + k


@cuda.jit
def an_array_is_kept(x, y, out):
    i = cuda.grid(1)
    a = x[i:]
    b = x[:16]
    kept = a
    row = a[::2]
    for _ in range(i % 3):
        a, b = b, a
    out[i] = kept[0] + len(kept) + 100 * len(row) + 10000 * len(a)


_KERNELS = (
    arrays_change_places,
    three_arrays_change_places,
    an_array_is_chosen,
    an_array_gets_shorter,
    a_parameter_is_another_array,
    shared_tiles_change_places,
    one_name_for_several_arrays,
    arrays_and_numbers_change_places,
    an_array_is_kept,
)

#: Each kernel, and the types of x and y.
KERNELS = dict.fromkeys(_KERNELS, (np.float32, np.int64))
