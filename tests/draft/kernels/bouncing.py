"""Balls in a box whose sides come as a tuple: an array for each coordinate, and several targets of one assignment."""

import numpy as np
from numba import cuda

SIDES = (np.float32(0), np.float32(1), np.float32(0.25), np.float32(0.75))


@cuda.jit
def bounce(px, py, vx, vy, dt, sides):
    i = cuda.grid(1)
    if i < px.size:
        x = px[i] + vx[i] * dt
        y = py[i] + vy[i] * dt
        if x < sides[0] or x > sides[1]:
            vx[i] *= -1
            x = min(max(x, sides[0]), sides[1])
        if not sides[2] <= y <= sides[3]:
            vy[i] = -vy[i]
            y = min(max(y, sides[2]), sides[3])
        px[i], py[i] = x, y


def inputs(rng):
    balls = rng.random((4, 40)).astype(np.float32)
    balls[2:] -= np.float32(0.5)
    return {"balls": balls}


def main(rng):
    balls = inputs(rng)["balls"]
    bounce[2, 32](*balls, np.float32(2), SIDES)
    return {"balls": balls}


def expected(given):
    x, y, vx, vy = given["balls"]
    two = np.float32(2)
    moved = x + vx * two, y + vy * two
    kept = np.clip(moved[0], *SIDES[:2]), np.clip(moved[1], *SIDES[2:])
    turned = [np.where(a == b, v, -v) for a, b, v in zip(moved, kept, (vx, vy), strict=True)]
    return {"balls": np.array([*kept, *turned])}
