"""Integrals by Simpson's rule; the integrand is a device function that the kernel is made for."""

import math

import numpy as np
from numba import cuda


def integrator(function):
    @cuda.jit
    def integrate(lower, upper, n, result):
        i = cuda.grid(1)
        if i < lower.size:
            a, b = lower[i], upper[i]
            h = (b - a) / n
            s = function(a) + function(b)
            for k in range(1, n):
                s += function(a + k * h) * (4 if k % 2 else 2)
            result[i] = s * h / 3

    return integrate


@cuda.jit(device=True)
def gaussian(x):
    return math.exp(-x * x)


@cuda.jit(device=True)
def wave(x):
    return math.sin(x) + 0.5 * math.cos(3 * x)


of_gaussian, of_wave = integrator(gaussian), integrator(wave)


def inputs(rng):
    return {"lower": rng.uniform(-2, 0, 20), "upper": rng.uniform(0, 2, 20)}


def main(rng):
    given = inputs(rng)
    bell, waves = np.zeros(20), np.zeros(20)
    of_gaussian[1, 32](given["lower"], given["upper"], 64, bell)
    of_wave[1, 32](given["lower"], given["upper"], 64, waves)
    return {"bell": bell, "waves": waves}


def expected(given):
    a, b = given["lower"], given["upper"]
    return {"waves": np.cos(a) - np.cos(b) + (np.sin(3 * b) - np.sin(3 * a)) / 6}


TOLERANCE = 1e-5
