"""Matrix profile of a series: the least z-normalised distance of each window to another, and where that is."""

import math

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def distance(series, mean, std, i, j, m):
    dot = 0.0
    for k in range(m):
        dot += series[i + k] * series[j + k]
    correlation = (dot - m * mean[i] * mean[j]) / (m * std[i] * std[j])
    return math.sqrt(max(2.0 * m * (1.0 - correlation), 0.0))


@cuda.jit
def moments(series, m, mean, std):
    i = cuda.grid(1)
    if i < mean.shape[0]:
        window = series[i : i + m]
        s = 0.0
        for v in window:
            s += v
        mu = s / m
        var = 0.0
        for v in window:
            var += (v - mu) * (v - mu)
        mean[i] = mu
        std[i] = math.sqrt(var / m)


@cuda.jit
def profile(series, m, mean, std, best, where):
    i = cuda.grid(1)
    n = mean.shape[0]
    if i < n:
        nearest = math.inf
        index = -1
        for j in range(n):
            if abs(i - j) <= m // 4:
                continue
            d = distance(series, mean, std, i, j, m)
            if d < nearest:
                nearest, index = d, j
        best[i] = nearest
        where[i] = index


def inputs(rng):
    return {"series": np.cumsum(rng.standard_normal(48))}


def main(rng):
    series, m = inputs(rng)["series"], 8
    n = series.size - m + 1
    mean, std, best, where = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    moments[2, 32](series, m, mean, std)
    profile[2, 32](series, m, mean, std, best, where)
    return {"mean": mean, "std": std, "best": best, "where": where}


def expected(given):
    windows = np.lib.stride_tricks.sliding_window_view(given["series"], 8)
    z = (windows - windows.mean(1, keepdims=True)) / windows.std(1, keepdims=True)
    d = np.sqrt(((z[:, None] - z[None]) ** 2).sum(2))
    places = np.arange(len(z))
    d[np.abs(places[:, None] - places[None]) <= 2] = np.inf
    return {"best": d.min(1), "where": d.argmin(1)}
