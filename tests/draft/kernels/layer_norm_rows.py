"""Layer norm of rows by Welford's method, merged over the threads of a block by a tree."""

import math

import numpy as np
from numba import cuda, float32

T = 32


def merge(n_a, mean_a, m2_a, n_b, mean_b, m2_b):
    n = n_a + n_b
    if n == 0:
        return n, mean_a, m2_a
    delta = mean_b - mean_a
    return n, mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n


merge = cuda.jit(merge, device=True)


@cuda.jit
def layer_norm(x, weight, bias, eps, y):
    means = cuda.shared.array(T, float32)
    squares = cuda.shared.array(T, float32)
    counts = cuda.shared.array(T, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    count = mean = m2 = float32(0)
    for j in range(t, x.shape[1], T):
        count += float32(1)
        delta = x[row, j] - mean
        mean += delta / count
        m2 += delta * (x[row, j] - mean)
    counts[t], means[t], squares[t] = count, mean, m2
    cuda.syncthreads()
    width = T // 2
    while width >= 1:
        if t < width:
            o = t + width
            merged = merge(counts[t], means[t], squares[t], counts[o], means[o], squares[o])
            counts[t], means[t], squares[t] = merged
        cuda.syncthreads()
        width //= 2
    scale = 1 / math.sqrt(squares[0] / counts[0] + eps)
    for j in range(t, x.shape[1], T):
        y[row, j] = (x[row, j] - means[0]) * scale * weight[j] + bias[j]


def inputs(rng):
    shapes = {"x": (4, 50), "weight": (50,), "bias": (50,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def main(rng):
    given = inputs(rng)
    y = np.zeros((4, 50), np.float32)
    layer_norm[4, T](given["x"], given["weight"], given["bias"], 1e-5, y)
    return {"y": y}


def expected(given):
    x = given["x"].astype(np.float64)
    z = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return {"y": z * given["weight"] + given["bias"]}


TOLERANCE = 1e-4
