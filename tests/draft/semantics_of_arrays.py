"""What arrays and their parts mean, and variables that are several arrays in turn; see semantics.py."""

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
    now = cuda.shared.array((2, 32), "float64")
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


@cuda.jit
def counts_from_the_end(x, y, out):
    i = cuda.grid(1)
    square = cuda.local.array((3, 4), dtype="float64")
    for k in range(12):
        square[k // 4, k % 4] = x[i] + k
    row = square[-1]
    out[i] = x[-1] + 3 * square[-2, -3] + 7 * row[-4]


@cuda.jit
def slices_begin_anywhere(x, y, out):
    i = cuda.grid(1)
    part = x[y[i] :]
    last = x[-3:]
    square = cuda.local.array((3, 4), float64)
    square[:] = 1.5
    square[1, ...] = 0.5
    rows = square[y[i] : 2, y[i] :]
    out[i] = len(part) + part[0] + last[2] + 100 * rows.shape[0] + 1000 * rows.shape[1]
    far = x[y[i] * 40 :: 3]
    out[i] += 10000 * far.size + square[1, 2] * 3 + square[...][2, 3]


@cuda.jit
def parts_of_dynamic_shared_memory(x, y, out):
    i = cuda.grid(1)
    half = y[0] + 20
    memory = cuda.shared.array(0, float64)
    low = memory[:half]
    high = memory[half:]
    low[i // 2] = x[i // 2 * 2]
    high[i // 2] = 3
    cuda.syncthreads()
    out[i] = low[(i // 2 + 5) % 16] + high[i // 2]


@cuda.jit
def rows_are_unpacked(x, y, out):
    i = cuda.grid(1)
    square = cuda.local.array((8, 3), float64)
    for k in range(24):
        square[k // 3, k % 3] = x[i] * k
    a, b, c = square[i % 8]
    d, e = x[3:5]
    out[i] = a + 10 * b - c + d * e


@cuda.jit
def elements_change_places(x, y, out):
    i = cuda.grid(1)
    held = cuda.local.array(5, int64)
    for k in range(5):
        held[k] = (k + i) % 5
    k = i % 5
    held[k], held[held[k]] = held[held[k]], held[k]
    held[0], held[3] = held[3], held[0]
    held[1], held[2], k = held[2] + k, held[1], held[0]
    total = 0
    for n in range(5):
        total = total * 7 + held[n]
    held[4], total, k = total, k, total
    out[i] = total + held[4] + k


@cuda.jit(device=True)
def total_of(matrix):
    total = 0.0
    for r in range(matrix.shape[0]):
        for c in range(matrix.shape[1]):
            total = total * 0.5 + matrix[r, c]
    return total


@cuda.jit
def transposed(x, y, out):
    i = cuda.grid(1)
    square = cuda.local.array((3, 4), float64)
    for k in range(12):
        square[k // 4, k % 4] = x[i] + k
    turned = square.T
    turned[3, 0] = y[i]
    either = square[:, :3] if y[i] % 2 == 0 else square[:, :3].T
    out[i] = square.T[2, 1] + turned[0, 2] * 3 + turned.shape[0] * 100 + turned.size + either[0, 2] + x.T[i]
    out[i] += total_of(turned) + total_of(square)


@cuda.jit(device=True)
def write_at(table, place, v):
    table[place] = v
    table[place] += 0.5


@cuda.jit(device=True)
def element_at(table, place):
    return table[place]


@cuda.jit
def tuples_are_indices(x, y, out):
    i = cuda.grid(1)
    table = cuda.local.array((4, 8), float64)
    table[:, :] = x[i]
    place = (i % 4, i % 8)
    of_two_types = (i % 4, cuda.threadIdx.y)
    table[place] = y[i]
    table[of_two_types] -= table[place] * 2
    write_at(table, (3, i % 8), x[i])
    cuda.atomic.add(table, place, 2.5)
    cuda.atomic.add(table, (i % 2, 1), 0.25)
    end = (1, -1)
    table[end] += 7
    last = (3, 7)
    if y[i] > 0:
        last = (2, i % 5)
    if x[i] > 0:
        last = (0, 2)
    for each in ((0, 1), (1, 0)):
        out[i] += table[each]
    row = (2,)
    out[i] += table[row][3] + table[1, 7] * 3 + element_at(table, (i % 4, 1))
    if y[i] <= 0:
        out[i] += table[0, 2] * 5
    out[i] += table[last]


@cuda.jit
def rows_of_arrays_run_a_loop(x, y, out):
    i = cuda.grid(1)
    table = cuda.local.array((3, 4), float64)
    for k in range(12):
        table[k // 4, k % 4] = x[(i + k) % 32]
    total = 0.0
    for row in table:
        for value in row:
            total = total * 0.5 + value
        row[1] = total
    for row in table[1:]:
        total += row[1] * len(row)
    for row in ((1, 2), (3, 4)):
        total += row[0] * row[1]
    out[i] = total


_KERNELS = (
    tuples_are_indices,
    transposed,
    counts_from_the_end,
    slices_begin_anywhere,
    parts_of_dynamic_shared_memory,
    rows_are_unpacked,
    elements_change_places,
    arrays_change_places,
    three_arrays_change_places,
    an_array_is_chosen,
    an_array_gets_shorter,
    a_parameter_is_another_array,
    shared_tiles_change_places,
    one_name_for_several_arrays,
    arrays_and_numbers_change_places,
    an_array_is_kept,
    rows_of_arrays_run_a_loop,
)

#: Each kernel, and the types of x and y.
KERNELS = dict.fromkeys(_KERNELS, (np.float32, np.int64))
