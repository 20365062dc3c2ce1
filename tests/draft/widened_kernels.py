"""Kernels for test_widened.py: what Numba computes in float64 though its numbers are float32, and what it does not."""

import math

import numpy as np
from numba import cuda, float32, float64, int64

ONE, HALF = np.float32(1), 0.5


def one_plus(x, y):
    y[0] = 1 + math.exp(x[0])


def half_of(x, y):
    y[0] = x[0] * 0.5


def named_half_of(x, y):
    y[0] = HALF * x[0]


def variable_half_of(x, y):
    share = 0.5
    y[0] -= share * x[0]


def times_a_size(x, y, n):
    y[0] = x[0] / n


@cuda.jit(device=True)
def doubled(v):
    return 2 * v


def by_a_function(x, y):
    y[0] = doubled(x[0]) + doubled(x[1])


def by_an_argument(x, y, n, alpha):
    y[0] = alpha * x[0]


def by_what_is_computed_of_it(x, y, n, alpha):
    rest = 1 - alpha
    y[0] = x[0] * rest - x[1] * (2 * alpha)


def in_float32(x, y, n):
    y[0] = (ONE + math.exp(x[0])) * np.float32(0.5) / np.float32(n)


def summed_in_float64(x, y):
    total = 0.0
    for i in range(x.size):
        total += x[i]
    y[0] = total


def added_to_float64(x, y):
    total = 0.0
    if x.size > 1:
        total += x[0]
    y[0] = total


def of_integers(x, y, n):
    if n // 2 > 3:
        y[0] = -x[n * 4 + 1]


_OF_FLOAT32, _OF_FLOAT64 = (float32[::1], float32[::1]), (float64[::1], float64[::1])

KERNELS = {
    "one_plus": (one_plus, _OF_FLOAT32),
    "half_of": (half_of, _OF_FLOAT32),
    "named_half_of": (named_half_of, _OF_FLOAT32),
    "variable_half_of": (variable_half_of, _OF_FLOAT32),
    "times_a_size": (times_a_size, (*_OF_FLOAT32, int64)),
    "by_a_function": (by_a_function, _OF_FLOAT32),
    "by_an_argument": (by_an_argument, (*_OF_FLOAT32, int64, float64)),
    "by_what_is_computed_of_it": (by_what_is_computed_of_it, (*_OF_FLOAT32, int64, float64)),
    "in_float32": (in_float32, (*_OF_FLOAT32, int64)),
    "summed_in_float64": (summed_in_float64, _OF_FLOAT32),
    "added_to_float64": (added_to_float64, _OF_FLOAT32),
    "of_integers": (of_integers, (*_OF_FLOAT32, int64)),
    "one_plus of float64": (one_plus, _OF_FLOAT64),
    "half_of of float64": (half_of, _OF_FLOAT64),
    "by_a_function of float64": (by_a_function, _OF_FLOAT64),
}
