"""Kernels that the tests run in both ways. Each does several things, chosen by a number, so that it is built once."""

import enum
import math

import numpy as np
from numba import cuda, float32, from_dtype, int32

WEIGHTS = np.array([0.5, -1.5, 2.5])
OFFSET = 3


class Scale(enum.IntEnum):
    DOUBLE = 2


class Settings:
    FACTOR = 7


@cuda.jit(device=True)
def weighted(x, i, offset=OFFSET):
    return x[i] * WEIGHTS[i % 3] + offset


@cuda.jit
def mistakes(which, x, y):
    tile = cuda.shared.array((8, 4), float32)
    t = cuda.threadIdx.x
    if which == 0:
        y[0, 0] = x[t, 0] + t  # all write to one place
    elif which == 1:
        y[t, t - 2 + which] = x[t, 0]
    elif which == 2:
        tile[t, 1] = x[t, 1]
        cuda.syncthreads()
        y[t, 1] = tile[t, 2]
    elif which == 3:
        if t < 4:
            cuda.syncthreads()
        else:
            cuda.syncthreads()
    elif which == 4:
        y[t, 0] = x[-1 - t, -1]
    elif which == 5:
        tile[t, 0] = x[t, 0]
        y[t, 0] = tile[(t + 1) % 8, 0]
    elif which == 6:
        y[t, 0] = tile[t, 4]


MISTAKES = range(7)


@cuda.jit
def arguments(whole, wide, real, single, flag, matrix, ints, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        row = matrix[i % matrix.shape[0]]
        v = row[i % matrix.shape[1]] * real + single
        out[i, 0] = v if flag else -v
        out[i, 1] = whole // 3 + wide % 7 + ints[-1 - i % ints.size] * Settings.FACTOR
        out[i, 2] = math.sqrt(abs(row[0])) + weighted(row, i % 3)
        out[i, 3] = math.exp(single) * ints.size * Scale.DOUBLE


@cuda.jit
def accesses(program, x, sums, out):
    """A program of accesses: at each step each thread does one of them, and all wait."""
    tile = cuda.shared.array(4, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t < 2:
        tile[t] = t
    cuda.syncthreads()
    found = 0
    for step in range(program.shape[2]):
        operation, place = program[b, t, step, 0], program[b, t, step, 1]
        if operation == 1:
            found += x[place]
        elif operation == 2:
            x[place] = 1000 + 100 * step + 10 * b + t
        elif operation == 3:
            found += tile[place]
        elif operation == 4:
            tile[place] = 1000 + 100 * step + 10 * b + t
        elif operation == 5:
            cuda.atomic.add(x, place, 1)
        elif operation == 6:
            cuda.atomic.add(tile, place, 1)
        elif operation == 7:
            found += sums[place]
        if operation < 8 or step % 2 == 0:
            cuda.syncthreads()
    out[b, t] = found


OPERATIONS = 8


@cuda.jit
def prints(x):
    print(x[0])


@cuda.jit(device=True)
def shifted(x, i):
    x[i + 1] = x[i]


@cuda.jit
def warps(which, x, out):
    i = cuda.grid(1)
    v = x[i]
    if which == 1:
        if i % 32 < 16:
            v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 16)
        else:
            v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 16)
    elif which == 2:
        if i % 32 == 31:
            return
        v = cuda.shfl_down_sync(0xFFFFFFFF, v, 1)
    elif which == 3:
        shifted(out, i)
    else:
        for distance in (16, 8, 4, 2, 1):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, distance)
    if i % 32 == 0:
        out[i // 32] = v


@cuda.jit
def doubled(x, y):
    i = cuda.grid(1)
    y[i] = 2 * x[i]


PARTICLE = np.dtype([("x", np.float32), ("v", np.float32), ("cell", np.int32), ("right", np.bool_)], align=True)
RECORD = from_dtype(PARTICLE)


@cuda.jit(device=True)
def moved(particles, i, seconds):
    particles[i].x += particles[i].v * seconds


@cuda.jit
def particles_move(particles, seconds, total):
    i = cuda.grid(1)
    if i < particles.size:
        own = particles[i]
        own.v *= 0.5
        moved(particles, i, seconds)
        own["cell"] = i // 4
        particles[i].right = own.x > 0
        if own.right and own.cell % 2 == 0:
            cuda.atomic.add(total, 0, own.x)


@cuda.jit
def particles_meet(particles):
    own = particles[0]
    own.x = cuda.threadIdx.x


@cuda.jit
def records_in_a_block(out):
    tile = cuda.shared.array(4, RECORD)
    tile[cuda.threadIdx.x].x = 1
    out[cuda.threadIdx.x] = tile[cuda.threadIdx.x].x
