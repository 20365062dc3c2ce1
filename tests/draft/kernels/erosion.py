"""Erosion of a binary image by a constant mask; numpy.bool_ converts."""

import numpy as np
from numba import cuda

KERNEL = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=np.bool_)


@cuda.jit
def erode(img, out, iterations):
    k = cuda.const.array_like(KERNEL)
    y, x = cuda.grid(2)
    h, w = img.shape
    if y >= h or x >= w:
        return
    keep: np.bool_ = np.bool_(True)
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            yy, xx = y + dy, x + dx
            if k[dy + 1, dx + 1] and (yy < 0 or yy >= h or xx < 0 or xx >= w or not img[yy, xx]):
                keep = np.bool_(False)
    out[y, x] = keep


def inputs(rng):
    return {"img": rng.random((17, 19)) > 0.2}


def main(rng):
    img = inputs(rng)["img"]
    out = np.zeros_like(img)
    erode[(3, 3), (8, 8)](img, out, 1)
    return {"out": out}


def expected(given):
    img = given["img"]
    around = np.pad(img, 1)
    return {"out": img & around[:-2, 1:-1] & around[2:, 1:-1] & around[1:-1, :-2] & around[1:-1, 2:]}
