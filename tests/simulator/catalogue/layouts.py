"""Views that share memory, torch tensors, records, shared memory of two dtypes."""

import numpy as np
import torch
from numba import cuda, float32, float64, from_dtype, int8, int32

from tests.simulator.catalogue.case import read, right, write, wrong

N = 64


def _run_shift(kernel):
    """Two views of one array: a[1:] and a[:-1]."""
    a = np.arange(N + 1, dtype=np.float32)
    on_device = cuda.to_device(a)
    kernel[1, N](on_device[1:], on_device[:-1])
    np.testing.assert_array_equal(on_device.copy_to_host()[:-1], a[1:])


@right(run=_run_shift)
@cuda.jit
def shift_through_registers(source, target):
    t = cuda.threadIdx.x
    v = source[t]
    cuda.syncthreads()
    target[t] = v


@wrong("race", "target", "global", read("first", 0), write("second", 1), run=_run_shift, any_array=True)
@cuda.jit
def shift_between_views(source, target):
    """The arguments have two names and one memory."""
    t = cuda.threadIdx.x
    target[t] = source[t]  # first, second


def _run_interleaved(kernel):
    a = cuda.to_device(np.arange(2 * N, dtype=np.int32))
    kernel[2, N](a[::2], a[1::2])
    np.testing.assert_array_equal(a.copy_to_host(), np.arange(2 * N) // 2 * 2 + np.arange(2 * N) % 2 * 100)


@right(run=_run_interleaved)
@cuda.jit
def even_and_odd_places(even, odd):
    """The views share no element, though their ranges of memory overlap; a block has each."""
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        even[t] = 2 * t
    else:
        odd[t] = 2 * t + 100


def _run_windows(kernel):
    a = cuda.to_device(np.zeros(N, dtype=np.int32))
    kernel[2, 32](a[:40], a[24:])
    np.testing.assert_array_equal(a.copy_to_host(), [1] * 32 + [2] * 32)


@right(run=_run_windows)
@cuda.jit
def windows_kept_apart(left, right_part):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        left[t] = 1
    else:
        right_part[t + 8] = 2


@wrong("race", "right_part", "global", write("first", 24, 0), write("second", 0, 1), run=_run_windows, any_array=True)
@cuda.jit
def windows_that_overlap(left, right_part):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        left[t] = 1  # first
    else:
        right_part[t] = 2  # second


def _run_two_dtypes(kernel):
    x = np.arange(N, dtype=np.float64) / 3
    y = np.zeros(N, dtype=np.float64)
    kernel[1, N, 0, 12 * N](x, y)
    np.testing.assert_array_equal(y, x[::-1] + np.arange(N)[::-1])


@right(run=_run_two_dtypes)
@cuda.jit
def two_dtypes_in_dynamic_shared_memory(x, y):
    """First the doubles, then the integers."""
    values = cuda.shared.array(0, float64)[:N]
    ranks = cuda.shared.array(0, int32)[2 * N :]
    t = cuda.threadIdx.x
    values[t] = x[t]
    ranks[t] = t
    cuda.syncthreads()
    y[t] = values[N - 1 - t] + ranks[N - 1 - t]


@wrong("race", "ranks", "shared", write("first", 0), write("second", 1), run=_run_two_dtypes, any_array=True)
@cuda.jit
def two_dtypes_on_one_place(x, y):
    """All arrays of size 0 start at the same byte."""
    values = cuda.shared.array(0, float64)
    ranks = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    values[t] = x[t]  # first
    ranks[t] = t  # second
    cuda.syncthreads()
    y[t] = values[N - 1 - t] + ranks[N - 1 - t]


def _run_packed(kernel):
    x = np.arange(8, dtype=np.float64) / 3
    y = np.zeros_like(x)
    kernel[1, 8, 0, 80](x, y)
    np.testing.assert_array_equal(y, x[::-1])


@right(run=_run_packed)
@cuda.jit
def doubles_behind_flags(x, y):
    """Eight flags of a byte, then the doubles, at a multiple of eight bytes."""
    room = cuda.shared.array(0, int8)
    values = room[8:72].view(float64)
    t = cuda.threadIdx.x
    room[t] = 1
    values[t] = x[t]
    cuda.syncthreads()
    y[t] = values[7 - t] * room[7 - t]


@wrong("misaligned", "room", "shared", read("first", 0), run=_run_packed)
@cuda.jit
def doubles_behind_an_odd_byte(x, y):
    """A header of nine bytes: the GPU would trap at the first double."""
    room = cuda.shared.array(0, int8)
    values = room[9:73].view(float64)  # first
    t = cuda.threadIdx.x
    room[t] = 1
    values[t] = x[t]
    cuda.syncthreads()
    y[t] = values[7 - t] * room[7 - t]


def _run_tensors(kernel):
    """A transposed tensor, one of no dimensions, and an expanded one."""
    base = torch.arange(6 * 8, dtype=torch.float32).reshape(6, 8)
    scale = torch.tensor(2.0)
    bias = torch.arange(6, dtype=torch.float32).expand(8, 6)
    y = torch.zeros(8, 6)
    kernel[1, (8, 8)](base.t(), scale, bias, y)
    torch.testing.assert_close(y, base.t() * scale + bias, rtol=0, atol=0)


@right(run=_run_tensors)
@cuda.jit
def scale_and_shift_tensors(x, scale, bias, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] * scale[()] + bias[i, j]


@wrong("out-of-bounds", "x", "global", read("first", (0, 6, 0)), run=_run_tensors)
@cuda.jit
def scale_and_shift_tensors_by_the_base_shape(x, scale, bias, y):
    """Guards with the shape before the transposition: six columns are eight."""
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[0]:
        y[i, j] = x[i, j] * scale[()] + bias[i, j]  # first


def _run_expanded(kernel):
    x = torch.arange(8, dtype=torch.float32)
    sums = torch.zeros(1, dtype=torch.float32).expand(8)
    kernel[1, 8](x, sums)
    assert sums[0].item() == 28


@right(run=_run_expanded)
@cuda.jit
def add_to_an_expanded_tensor(x, sums):
    cuda.atomic.add(sums, cuda.threadIdx.x, x[cuda.threadIdx.x])


@wrong("race", "sums", "global", write("first", 0), read("first", 1), run=_run_expanded)
@cuda.jit
def add_to_an_expanded_tensor_without_atomic(x, sums):
    """Eight indices, one element: the stride is zero."""
    t = cuda.threadIdx.x
    sums[t] += x[t]  # first


BODY = np.dtype([("x", np.float32), ("v", np.float32), ("mass", np.float32)])


def _run_bodies(kernel):
    bodies = np.zeros(N, dtype=BODY)
    bodies["x"] = np.arange(N) - 20
    bodies["mass"] = 1 + np.arange(N) % 3
    want = bodies.copy()
    want["v"] = (want["mass"] * want["x"]).sum() / want["mass"]
    want["x"] += want["v"]
    kernel[1, N](bodies)
    np.testing.assert_array_equal(bodies, want)


@right(run=_run_bodies)
@cuda.jit
def move_bodies(bodies):
    t = cuda.threadIdx.x
    pull = float32(0)
    for k in range(N):
        pull += bodies[k].mass * bodies[k].x
    cuda.syncthreads()
    bodies[t].v = pull / bodies[t].mass
    bodies[t].x += bodies[t].v


@wrong("race", "bodies", "global", write("first", 0), read("second", 1), run=_run_bodies)
@cuda.jit
def move_bodies_without_barrier(bodies):
    t = cuda.threadIdx.x
    pull = float32(0)
    for k in range(N):
        pull += bodies[k].mass * bodies[k].x  # second
    bodies[t].v = pull / bodies[t].mass
    bodies[t].x += bodies[t].v  # first


def _run_momenta(kernel):
    bodies = np.zeros(N, dtype=BODY)
    bodies["mass"] = 1 + np.arange(N) % 3
    kernel[1, N](bodies)
    np.testing.assert_array_equal(bodies["v"], bodies["mass"].sum() / bodies["mass"])


@right(run=_run_momenta)
@cuda.jit
def share_out_momentum(bodies):
    """All masses are read while own velocities are written: fields beside each other, no race."""
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(N):
        total += bodies[k].mass
    bodies[t].v = total / bodies[t].mass


POINT = from_dtype(np.dtype([("key", np.int32), ("value", np.float32)]))


def _run_records_in_shared_memory(kernel):
    keys = np.arange(N, dtype=np.int32) * 29 % N
    y = np.zeros(N, dtype=np.float32)
    kernel[1, N](keys, y)
    np.testing.assert_array_equal(y[keys], np.arange(N))


@right(run=_run_records_in_shared_memory)
@cuda.jit
def records_in_shared_memory(keys, y):
    points = cuda.shared.array(N, POINT)
    t = cuda.threadIdx.x
    points[t].key = keys[t]
    points[t].value = t
    cuda.syncthreads()
    partner = points[N - 1 - t]
    y[partner.key] = partner.value


@wrong("uninitialised read", "points", "shared", read("first", 0), run=_run_records_in_shared_memory)
@cuda.jit
def records_with_a_field_left_out(keys, y):
    points = cuda.shared.array(N, POINT)
    t = cuda.threadIdx.x
    points[t].key = keys[t]
    cuda.syncthreads()
    partner = points[N - 1 - t]
    y[partner.key] = partner.value  # first
