"""Pairs of kernels: what the simulator runs and Numba's CUDA target refuses, and the same as both take it.

The line that is refused ends with ``# refused``.
"""

import math

import numpy as np
from numba import cuda

SIZE = 4
DOUBLE = 2 * SIZE
SHAPE = (2, SIZE)
TYPED = np.int32(4)


@cuda.jit(device=True)
def scaled(x, factor=2):
    return x * factor


def computed_shape(x, n):
    s = cuda.shared.array(SIZE * 2, np.float32)  # refused
    s[0] = n
    x[0] = s[0]


def computed_shape_right(x, n):
    s = cuda.shared.array(DOUBLE, np.float32)
    s[0] = n
    x[0] = s[0]


def shape_by_argument(x, n):
    s = cuda.local.array((2, n), np.float32)  # refused
    s[0, 0] = n
    x[0] = s[0, 0]


def shape_by_argument_right(x, n):
    rows, columns = 2, 3
    s = cuda.local.array((rows, columns), np.float32)
    s[0, 0] = n
    x[0] = s[0, 0]


def shape_of_an_array(x, n):
    s = cuda.shared.array(x.shape[0], dtype=np.int64)  # refused
    s[0] = n
    x[0] = s[0]


def shape_of_an_array_right(x, n):
    s = cuda.shared.array(shape=SHAPE, dtype=np.int64)
    s[0, 0] = n
    x[0] = s[0, 0]


def shape_of_a_typed_number(x, n):
    s = cuda.shared.array(TYPED, np.float64)  # refused
    s[0] = n
    x[0] = s[0]


def shape_of_a_typed_number_right(x, n):
    s = cuda.shared.array(2 * 2, np.float64)
    s[0] = n
    x[0] = s[0]


def python_dtype(x, n):
    s = cuda.shared.array(4, float)  # refused
    s[0] = n
    x[0] = s[0]


def python_dtype_right(x, n):
    s = cuda.shared.array(4, x.dtype)
    s[0] = n
    x[0] = s[0]


def mixed_tuple(x, n):
    for value in (np.int32(1), n):  # refused
        x[0] += value


def mixed_tuple_right(x, n):
    for value in (np.int64(1), n):
        x[0] += value


def mixed_literals(x, n):
    for value in (1, 2.5):  # refused
        x[0] += value


def mixed_literals_right(x, n):
    for value in (1.0, 2.5):
        x[0] += value


def mixed_elements(x, n):
    factors = (n, 2.5)
    for i in range(2):
        x[0] += factors[i]  # refused


def mixed_elements_right(x, n):
    factors = (n, 2.5)
    x[0] += factors[0] + factors[1]


def walrus(x, n):
    m = 1
    while (m := m * 2.5) < n:  # type: ignore[assignment]  # refused
        x[0] += m


def walrus_right(x, n):
    m = 2.5
    while m < n:
        x[0] += m
        m *= 2.5


def numpy_function(x, n):
    x[0] = np.sqrt(n)  # refused


def numpy_function_right(x, n):
    x[0] = math.sqrt(n) + np.sin(n)


def math_function(x, n):
    x[0] = math.gcd(n, 4)  # refused


def math_function_right(x, n):
    x[0] = math.hypot(n, 4)


def builtin(x, n):
    for i in reversed(range(3)):  # refused
        x[0] += i


def builtin_right(x, n):
    for i in range(2, -1, -1):
        x[0] += i


def made_list(x, n):
    squares = [i * i for i in range(3)]  # refused
    x[0] = squares[n - 1]


def made_list_right(x, n):
    for i in [0, 1, 4]:
        x[0] += i


def formatted(x, n):
    print(f"n is {n}")  # refused


def formatted_right(x, n):
    print("n is", n)


def caught(x, n):
    try:  # refused
        x[0] = n
    except ValueError:
        x[0] = 0


def caught_right(x, n):
    x[0] = n if n > 0 else 0


# Refused by numba's own target alone.


def smaller(x, n):
    x[0] = min(n, 2)  # refused


def smaller_right(x, n):
    x[0] = n if n < 2 else 2


def argument_left_out(x, n):
    x[0] = scaled(n)  # refused


def argument_left_out_right(x, n):
    x[0] = scaled(n, 2)


OF_NUMBAS_OWN = ("smaller", "argument_left_out")
NAMES = tuple(name.removesuffix("_right") for name in dict(globals()) if name.endswith("_right"))
