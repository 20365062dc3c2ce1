"""Prices of European options; the normal distribution by Abramowitz and Stegun 26.2.17 in a device function."""

import math

import numpy as np
from numba import cuda

A1, A2, A3, A4, A5 = 0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429
RSQRT2PI = 0.39894228040143267793994605993438


@cuda.jit(device=True)
def cnd(d):
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    result = RSQRT2PI * math.exp(-0.5 * d * d) * (k * (A1 + k * (A2 + k * (A3 + k * (A4 + k * A5)))))
    if d > 0:
        result = 1.0 - result
    return result


@cuda.jit
def black_scholes(call, put, s, x, t, r, v):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if i >= s.shape[0]:
        return
    sqrt_t = math.sqrt(t[i])
    d1 = (math.log(s[i] / x[i]) + (r + 0.5 * v * v) * t[i]) / (v * sqrt_t)
    d2 = d1 - v * sqrt_t
    cnd1 = cnd(d1)
    cnd2 = cnd(d2)
    discount = math.exp((-1.0 * r) * t[i])
    call[i] = s[i] * cnd1 - x[i] * discount * cnd2
    put[i] = x[i] * discount * (1.0 - cnd2) - s[i] * (1.0 - cnd1)


def inputs(rng):
    return {"s": rng.uniform(5, 30, 50), "x": rng.uniform(1, 100, 50), "t": rng.uniform(0.25, 10, 50)}


def main(rng):
    given = inputs(rng)
    call, put = np.zeros(50), np.zeros(50)
    black_scholes[2, 32](call, put, given["s"], given["x"], given["t"], 0.02, 0.3)
    return {"call": call, "put": put}


def expected(given):
    s, x, t = given["s"], given["x"], given["t"]
    d1 = (np.log(s / x) + (0.02 + 0.045) * t) / (0.3 * np.sqrt(t))
    d2 = d1 - 0.3 * np.sqrt(t)
    cdf = np.vectorize(lambda d: 0.5 * math.erfc(-d / math.sqrt(2)))
    return {"call": s * cdf(d1) - x * np.exp(-0.02 * t) * cdf(d2)}


TOLERANCE = 1e-4
