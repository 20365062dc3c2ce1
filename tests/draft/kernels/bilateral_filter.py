"""Bilateral filter: the weight of a neighbour falls with its distance and with the difference of the values."""

import math

import numpy as np
from numba import cuda

RADIUS = 2


@cuda.jit
def bilateral(src, dst, sigma_space, sigma_range):
    x, y = cuda.grid(2)
    rows, cols = src.shape
    if not (y < rows and x < cols):
        return
    centre = src[y, x]
    weights, total = 0.0, 0.0
    for dy in range(-RADIUS, RADIUS + 1):
        for dx in range(-RADIUS, RADIUS + 1):
            yy, xx = y + dy, x + dx
            if yy < 0 or xx < 0 or yy >= rows or xx >= cols:
                continue
            diff = src[yy, xx] - centre
            w = math.exp(-(dx**2 + dy**2) / (2 * sigma_space**2) - diff * diff / (2 * sigma_range**2))
            weights += w
            total += w * src[yy, xx]
    dst[y, x] = total / weights


def inputs(rng):
    return {"src": rng.uniform(0, 1, (10, 13)).astype(np.float32)}


def main(rng):
    src = inputs(rng)["src"]
    dst = np.empty_like(src)
    bilateral[(2, 2), (8, 8)](src, dst, 1.5, 0.2)
    return {"dst": dst}


def expected(given):
    src = given["src"].astype(np.float64)
    weights, total = np.zeros_like(src), np.zeros_like(src)
    padded = np.pad(src, RADIUS, constant_values=np.nan)
    for dy in range(-RADIUS, RADIUS + 1):
        for dx in range(-RADIUS, RADIUS + 1):
            other = padded[RADIUS + dy : RADIUS + dy + 10, RADIUS + dx : RADIUS + dx + 13]
            w = np.exp(-(dx**2 + dy**2) / 4.5 - (other - src) ** 2 / 0.08)
            weights += np.nan_to_num(w)
            total += np.nan_to_num(w * other)
    return {"dst": total / weights}
