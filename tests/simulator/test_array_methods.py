"""Methods and NumPy functions that kernels call on whole arrays and on typed numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

from trifold import KernelFault

DESCENDING = np.array([1, 2, 3])[::-1]


def test_a_copy_is_the_threads_own():
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        mine = DESCENDING.copy()
        mine[0] = i
        out[i] = mine[0] + mine[1] + mine[2]

    out = np.zeros(4, np.int64)
    kernel[1, 4](out)
    assert out.tolist() == [3, 4, 5, 6] and DESCENDING.tolist() == [3, 2, 1]


def test_a_copy_reads_each_element():
    @cuda.jit
    def kernel(out):
        shared = cuda.shared.array(2, np.float32)
        shared[0] = 1
        out[0] = shared.copy()[0]

    with pytest.raises(KernelFault, match=r"uninitialised read of shared array element shared\[1\]"):
        kernel[1, 1](np.zeros(1))


@pytest.mark.parametrize(
    ("value", "count"),
    [(np.uint8(0xFF), 8), (np.int8(-1), 8), (np.uint16(0x101), 2), (np.int32(-2), 31), (np.uint64(2**63 + 1), 2)],
)
def test_bit_count(value, count):
    @cuda.jit
    def kernel(out, x):
        out[0] = x.bit_count()

    out = np.zeros(1, np.int32)
    kernel[1, 1](out, value)
    assert out[0] == count


def test_a_float_has_no_bit_count():
    @cuda.jit
    def kernel(x):
        x.bit_count()

    with pytest.raises(AttributeError, match="bit_count"):
        kernel[1, 1](np.float32(1))


def test_a_numpy_function_of_whole_arrays_writes_into_its_output():
    @cuda.jit
    def kernel(out, x):
        np.sin(x, out)

    x, out = np.linspace(0, 1, 7, dtype=np.float32), np.zeros(7, np.float32)
    kernel[1, 1](out, x)
    np.testing.assert_array_equal(out, np.sin(x))
    with pytest.raises(TypeError, match="name the output"):
        cuda.jit(lambda x: np.sin(x))[1, 1](x)


def test_a_numpy_function_of_whole_arrays_is_checked():
    @cuda.jit
    def every_thread_writes_all(out, x):
        np.sin(x, out)

    with pytest.raises(KernelFault, match="race on global array element"):
        every_thread_writes_all[1, 2](np.zeros(3), np.ones(3))
