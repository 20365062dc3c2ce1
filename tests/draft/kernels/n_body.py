"""Accelerations of all bodies by all others, in tiles through shared memory; then one step of time."""

import math

import numpy as np
from numba import cuda, float32

BLOCK = 16
SOFTENING = np.float32(1e-3)


@cuda.jit(device=True)
def interaction(px, py, pz, other, acc):
    """The acceleration with what the other body adds to it: a tuple in, a tuple out."""
    ax, ay, az = acc
    dx = other[0] - px
    dy = other[1] - py
    dz = other[2] - pz
    dist2 = dx * dx + dy * dy + dz * dz + SOFTENING
    inverse = 1.0 / math.sqrt(dist2 * dist2 * dist2)
    s = other[3] * inverse
    return ax + dx * s, ay + dy * s, az + dz * s


@cuda.jit
def advance(bodies, velocity, dt, moved):
    tile = cuda.shared.array((BLOCK, 4), float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    n = bodies.shape[0]
    px = py = pz = 0.0
    if i < n:
        px, py, pz = bodies[i, 0], bodies[i, 1], bodies[i, 2]
    acc = (0.0, 0.0, 0.0)
    for start in range(0, n, BLOCK):
        if start + t < n:
            for k in range(4):
                tile[t, k] = bodies[start + t, k]
        cuda.syncthreads()
        for j in range(BLOCK):
            if start + j < n:
                acc = interaction(px, py, pz, tile[j], acc)
        cuda.syncthreads()
    if i < n:
        for k in range(3):
            velocity[i, k] += acc[k] * dt
            moved[i, k] = bodies[i, k] + velocity[i, k] * dt
        moved[i, 3] = bodies[i, 3]


def inputs(rng):
    bodies = rng.uniform(-1, 1, (40, 4)).astype(np.float32)
    bodies[:, 3] = np.abs(bodies[:, 3]) + np.float32(0.1)
    return {"bodies": bodies}


def main(rng):
    bodies = inputs(rng)["bodies"]
    velocity = np.zeros((40, 3), np.float32)
    moved = np.zeros_like(bodies)
    advance[3, BLOCK](bodies, velocity, 0.01, moved)
    return {"velocity": velocity, "moved": moved}


def expected(given):
    bodies = given["bodies"].astype(np.float64)
    distance = bodies[None, :, :3] - bodies[:, None, :3]
    square = (distance**2).sum(-1) + SOFTENING
    velocity = 0.01 * (distance * (bodies[None, :, 3] / square**1.5)[..., None]).sum(1)
    return {"velocity": velocity}


TOLERANCE = 1e-3
