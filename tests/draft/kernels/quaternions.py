"""Rotates points by unit quaternions: four-tuples are products' operands and results."""

import math

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def multiply(p, q):
    a, b, c, d = p
    e, f, g, h = q
    return (
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    )


@cuda.jit
def rotate(q, points, out):
    i = cuda.grid(1)
    if i >= points.shape[0]:
        return
    norm = math.sqrt(q[i, 0] ** 2 + q[i, 1] ** 2 + q[i, 2] ** 2 + q[i, 3] ** 2)
    unit = (q[i, 0] / norm, q[i, 1] / norm, q[i, 2] / norm, q[i, 3] / norm)
    inverse = (unit[0], -unit[1], -unit[2], -unit[3])
    turned = multiply(multiply(unit, (0.0, points[i, 0], points[i, 1], points[i, 2])), inverse)
    for k in range(3):
        out[i, k] = turned[k + 1]


def inputs(rng):
    return {"q": rng.standard_normal((20, 4)), "points": rng.standard_normal((20, 3))}


def main(rng):
    given = inputs(rng)
    out = np.zeros((20, 3))
    rotate[1, 32](given["q"], given["points"], out)
    return {"out": out}


def expected(given):
    q = given["q"] / np.linalg.norm(given["q"], axis=1, keepdims=True)
    w, v, p = q[:, :1], q[:, 1:], given["points"]
    return {"out": p + 2 * np.cross(v, np.cross(v, p) + w * p)}
