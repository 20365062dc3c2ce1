"""Which bytes a kernel was the last to write."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numba import cuda, float32

from trifold import KernelFault, simulator
from trifold.prototype import launch, output


@cuda.jit
def fill(y, n, value):
    i = cuda.grid(1)
    if i < n:
        y[i] = value


@pytest.fixture(autouse=True)
def recording():
    simulator.record_writes(True)
    yield
    simulator.record_writes(False)


def elements_of(array):
    """Which of its elements are a kernel's: all of their bytes. ``array`` may have gaps."""
    found = []
    for element in array:
        begin = element.data_ptr() if isinstance(element, torch.Tensor) else element.ctypes.data
        assert element.nbytes == array.itemsize
        found.append(all(simulator.written(begin, array.itemsize)))
    return found


def test_the_half_that_a_kernel_writes():
    y = torch.zeros(200)
    fill[4, 32](y, 100, 1.5)
    assert elements_of(y) == [True] * 100 + [False] * 100


def test_what_torch_overwrites_is_the_kernels_no_more():
    y = torch.zeros(64)
    fill[2, 32](y, 64, 1.5)
    y[:10] = 0.0
    assert elements_of(y) == [False] * 10 + [True] * 54
    fill[2, 32](y, 5, 0.0)
    assert elements_of(y) == [True] * 5 + [False] * 5 + [True] * 54
    assert not any(elements_of(torch.full_like(y, 1.5)))  # a copy is torch's


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8])
def test_elements_of_any_width(dtype):
    y = torch.zeros(50, dtype=dtype)
    fill[1, 64](y, 33, 1)
    assert elements_of(y) == [True] * 33 + [False] * 17


def test_what_lies_between_the_elements_is_not_written():
    y = torch.zeros(12)
    fill[1, 32](y[1::3], 3, 1.5)
    assert elements_of(y) == [False, True, False] * 3 + [False] * 3
    rows = torch.zeros(4, 6)

    @cuda.jit
    def column(y):
        y[cuda.threadIdx.x, 2] = 1

    column[1, 4](rows[:, 1:])
    assert elements_of(rows.flatten()) == [False, False, False, True, False, False] * 4


def test_views_of_one_tensor():
    y = torch.zeros(8)

    @cuda.jit
    def both(x, y):
        x[0] = 1
        y[0] = 1

    both[1, 1](y, y[3:])
    assert elements_of(y) == [True, False, False, True] + [False] * 4


def test_an_atomic_counts_and_a_compare_and_swap_that_fails_does_not():
    @cuda.jit
    def count(total, never):
        cuda.atomic.add(total, 0, 1)
        cuda.atomic.cas(never, 0, 1, 2)

    values = np.zeros(2, dtype=np.int32)
    count[2, 3](values[:1], values[1:])
    assert (values.tolist(), elements_of(values.reshape(2, 1))) == ([6, 0], [True, False])


def test_slices_and_records():
    @cuda.jit
    def kernel(y, records):
        y[1:3] = 4
        records[0].b = 2

    y, records = torch.zeros(4), np.zeros(2, dtype=np.dtype([("a", np.float32), ("b", np.float32)]))
    kernel[1, 1](y, records)
    assert elements_of(y) == [False, True, True, False]
    assert list(simulator.written(records.ctypes.data, 16)) == [0] * 4 + [1] * 4 + [0] * 8


def test_shared_and_local_memory_and_barriers():
    @cuda.jit
    def reverse(y):
        tile, own = cuda.shared.array(32, float32), cuda.local.array(1, float32)
        i = cuda.threadIdx.x
        own[0] = y[i]
        tile[i] = own[0]
        cuda.syncthreads()
        y[i] = tile[31 - i]

    y = torch.arange(40.0)
    reverse[1, 32](y)
    assert elements_of(y) == [True] * 32 + [False] * 8


def test_a_tuple_and_a_captured_device_array():
    captured = cuda.to_device(np.zeros(4, dtype=np.float32))

    @cuda.jit
    def kernel(pair):
        pair[1][0] = 1
        captured[3] = 1

    x, y = torch.zeros(2), torch.zeros(2)
    kernel[1, 1]((x, y))
    assert (elements_of(x), elements_of(y)) == ([False, False], [True, False])
    assert elements_of(captured._ary.reshape(4, 1)) == [False, False, False, True]


@pytest.mark.parametrize("checks", ["none", "race", "uninitialised"])
def test_whatever_is_checked(checks):
    y = torch.zeros(4)
    with simulator.options(checks=checks):
        fill[1, 32](y, 3, 1.5)
    assert elements_of(y) == [True, True, True, False]


def test_recording_checks_nothing():
    @cuda.jit
    def race(y):
        y[0] = cuda.threadIdx.x

    y = torch.zeros(1)
    with simulator.options(checks="none"):
        race[1, 4](y)
    assert elements_of(y) == [True]
    z = torch.zeros(1)
    with pytest.raises(KernelFault):
        race[1, 4](z)
    assert elements_of(z) == [False]


def test_the_schedule_whose_results_stay():
    @cuda.jit
    def last(y):
        y[cuda.atomic.add(y, 0, 1) + 1] = cuda.threadIdx.x

    y = torch.zeros(40, dtype=torch.int32)
    with simulator.options(schedules=3):
        last[1, 32](y)
    assert y[1:33].tolist() == list(range(32))
    assert elements_of(y) == [True] * 33 + [False] * 7


def test_it_is_recorded_between_on_and_off_until_it_is_on_again():
    y, z = torch.zeros(4), torch.zeros(4)
    fill[1, 32](y, 4, 1.5)
    simulator.record_writes(False)
    fill[1, 32](z, 4, 1.5)
    assert (elements_of(y), elements_of(z)) == ([True] * 4, [False] * 4)
    simulator.record_writes(True)
    assert elements_of(y) == [False] * 4


def test_copies_are_not_the_kernels():
    y, device = np.zeros(4, dtype=np.float32), cuda.device_array(4, np.float32)
    fill[1, 32](cuda.Out(y), 4, 1.5)
    fill[1, 32](device, 2, 1.5)
    assert not any(elements_of(y.reshape(4, 1)))
    assert elements_of(device._ary.reshape(4, 1)) == [True, True, False, False]


def test_no_bytes():
    assert simulator.written(0, 0) == b""
    with pytest.raises(ValueError, match="size must not be negative, but is -1"):
        simulator.written(torch.zeros(1).data_ptr(), -1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_result_that_was_staged_in_float32(dtype):
    y = torch.zeros(50, dtype=dtype)
    launch(fill, 1, output(y), 33, 1.5, block=64)
    assert y.tolist() == [1.5] * 33 + [0.0] * 17
    assert elements_of(y) == [True] * 33 + [False] * 17


def test_a_half_result_with_gaps_that_was_staged_in_float32():
    y = torch.zeros(4, 6, dtype=torch.float16)

    @cuda.jit
    def rows(y, n):
        i = cuda.threadIdx.x
        if i < n:
            y[i, 0] = y[i, 1] = i

    launch(rows, 1, output(y[:, 1:5:2]), 3, block=4)
    assert elements_of(y.flatten()) == ([False, True, False, True, False, False] * 3) + [False] * 6


def test_what_torch_rounds_of_its_own_is_not_written():
    y = torch.zeros(8, dtype=torch.float16)
    y.copy_(torch.ones(8))
    assert not any(elements_of(y))
    launch(fill, 1, output(y), 8, 1.5, block=8)
    y.copy_(torch.ones(8))
    assert not any(elements_of(y))
