"""Particles, an array of a structured dtype: a step of each, by name and by element, in both notations of a field."""

import numpy as np
from numba import cuda

PARTICLE = np.dtype([("x", np.float32), ("v", np.float32), ("mass", np.float64), ("hits", np.int32)], align=True)


@cuda.jit(device=True)
def reflect(particles, i, wall):
    if particles[i].x > wall:
        particles[i].x = 2 * wall - particles[i].x
        particles[i]["v"] = -particles[i]["v"]
        particles[i].hits += 1


@cuda.jit
def step(particles, dt, wall, energy):
    i = cuda.grid(1)
    if i >= particles.size:
        return
    p = particles[i]
    p.x += p.v * dt
    reflect(particles, i, wall)
    for _ in range(p.hits + 1):  # as many times as before the first
        p.hits += 2
    p.hits %= 9
    energy[i] = 0.5 * p.mass * p.v * p["v"] + p.hits


@cuda.jit
def lightest(particles, found):
    if cuda.grid(1) == 0:
        best = 0
        for j in range(len(particles)):
            other = particles[j]
            if other.mass < particles[best].mass:
                best = j
        found[0] = best


def inputs(rng):
    particles = np.zeros(45, PARTICLE)
    particles["x"] = rng.random(45)
    particles["v"] = rng.normal(size=45)
    particles["mass"] = rng.random(45) + 0.5
    return {"particles": particles}


def main(rng):
    particles = inputs(rng)["particles"]
    energy, found = np.zeros(45), np.zeros(1, np.int64)
    step[3, 16](particles, np.float32(0.5), np.float32(1), energy)
    lightest[1, 32](particles, found)
    return {"x": particles["x"].copy(), "v": particles["v"].copy(), "energy": energy, "found": found}


def expected(given):
    return {"found": given["particles"]["mass"].argmin(keepdims=True)}
