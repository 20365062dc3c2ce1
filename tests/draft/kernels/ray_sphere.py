"""Rays against spheres: the nearest hit, its number and Lambert's shading."""

import math

import numpy as np
from numba import cuda, float32

FAR = float("inf")


@cuda.jit(device=True)
def hit(ox, oy, dx, dy, dz, cx, cy, cz, r):
    lx, ly, lz = cx - ox, cy - oy, cz
    along = lx * dx + ly * dy + lz * dz
    d2 = lx * lx + ly * ly + lz * lz - along * along
    if along < 0 or d2 > r * r:
        return FAR
    return along - math.sqrt(r * r - d2)


@cuda.jit
def render(spheres, image, number):
    px, py = cuda.grid(2)
    h, w = image.shape
    if px >= w or py >= h:
        return
    ox = (px + 0.5) / w * 2 - 1
    oy = (py + 0.5) / h * 2 - 1
    nearest = FAR
    which = -1
    for s in range(spheres.shape[0]):
        t = hit(ox, oy, 0.0, 0.0, 1.0, spheres[s, 0], spheres[s, 1], spheres[s, 2], spheres[s, 3])
        if t < nearest:
            nearest, which = t, s
    if which >= 0:
        normal_z = (nearest - spheres[which, 2]) / spheres[which, 3]
        image[py, px] = float32(-normal_z if normal_z < 0 else 0)
    else:
        image[py, px] = 0
    number[py, px] = which


def inputs(rng):
    where = rng.uniform(-0.8, 0.8, (4, 3)) + np.array([0, 0, 4])
    return {"spheres": np.concatenate([where, rng.uniform(0.2, 0.5, (4, 1))], 1)}


def main(rng):
    image, number = np.zeros((12, 14), np.float32), np.zeros((12, 14), np.int8)
    render[(2, 2), (8, 8)](inputs(rng)["spheres"], image, number)
    return {"image": image, "number": number}


def expected(given):
    y, x = np.meshgrid((np.arange(12) + 0.5) / 6 - 1, (np.arange(14) + 0.5) / 7 - 1, indexing="ij")
    cx, cy, cz, r = given["spheres"].T[:, :, None, None]
    d2 = (cx - x) ** 2 + (cy - y) ** 2
    t = np.where(d2 <= r * r, cz - np.sqrt(np.maximum(r * r - d2, 0)), np.inf)
    return {"number": np.where(np.isfinite(t.min(0)), t.argmin(0), -1)}
