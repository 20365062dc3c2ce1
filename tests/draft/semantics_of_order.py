"""The order in which operands and arguments are evaluated, where they read or change memory; see semantics.py."""

import math

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def next_of(state, i):
    state[i] = (state[i] * 5 + 3) % 64
    return state[i]


@cuda.jit(device=True)
def between(low, high):
    return low + 100 * high


@cuda.jit
def order_of_arguments(x, y, out):
    i = cuda.grid(1)
    out[i] = 1 + i
    a = between(next_of(out, i), next_of(out, i))
    b = math.atan2(next_of(out, i), next_of(out, i))
    c = min(next_of(out, i), 2 * next_of(out, i)) - max(next_of(out, i), next_of(out, i), next_of(out, i))
    out[i] = a + b + c


@cuda.jit
def order_of_operands(x, y, out):
    i = cuda.grid(1)
    out[i] = 1 + i
    a = out[i] - next_of(out, i)
    b = next_of(out, i) * (y[i] + out[i] / next_of(out, i))
    c = 1 if next_of(out, i) < next_of(out, i) else next_of(out, i)
    if out[i] - next_of(out, i) > 3 and next_of(out, i) > 4:
        c += 1000
    elif next_of(out, i) > next_of(out, i):
        c += 2000
    out[i] = a + 3 * b + 7 * c + 11 * out[i]


@cuda.jit
def order_of_atomics(x, y, out):
    i = cuda.grid(1)
    out[i] = 1 + i
    a = cuda.atomic.add(out, i, 2) - 3 * cuda.atomic.add(out, i, 5)
    out[i] += a + out[i] * cuda.atomic.max(out, i, 7)


@cuda.jit
def order_of_updates(x, y, out):
    i = cuda.grid(1)
    held = cuda.local.array(2, np.float64)
    held[0], held[1] = 1 + i, 2
    held[0] += 3 * next_of(held, 0)
    held[int(next_of(held, 1)) % 2] -= next_of(held, 1)
    for k in range(int(next_of(held, 0)) % 3, int(next_of(held, 0)) % 7 + 3):
        held[1] += k
    out[i] = held[0] + 100 * held[1]


@cuda.jit
def order_with_a_condition(x, y, out):
    i = cuda.grid(1)
    out[i] = 1 + i
    a = (next_of(out, i) if y[i] > 0 else out[i]) - 3 * next_of(out, i)
    b = out[i] - (next_of(out, i) if y[i] > 1 else 5)
    out[i] = a + 7 * b


@cuda.jit
def order_of_elements(x, y, out):
    i = cuda.grid(1)
    out[i] = 1 + i
    a = 2.0
    b, _ = next_of(out, i), next_of(out, i)
    a, c = next_of(out, i), a + next_of(out, i)
    a, d = a + out[i], next_of(out, i) - a
    out[i] = a + 3 * b + 7 * c + 11 * d + 13 * out[i]


KERNELS = dict.fromkeys(
    (
        order_of_arguments,
        order_of_operands,
        order_of_atomics,
        order_of_updates,
        order_with_a_condition,
        order_of_elements,
    ),
    (np.float32, np.int64),
)
