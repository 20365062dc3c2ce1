"""Which bytes a checked kernel was the last to write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trifold import KernelFault
from trifold.cpu import RawKernel, runtime

CODE = r"""
#include <cuda_bf16.h>

template <typename T>
__global__ void fill(T* y, int n, int step, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i * step] = T(value);
}

__global__ void count(int* total, int* never, int* flag) {
  atomicAdd(total, 1);
  atomicCAS(never, 1, 2);
  *(volatile int*)flag = 3;
}

struct Pair { int first, second; };

__global__ void narrower(Pair* y) {
  y[threadIdx.x] = {1, 2};
  __syncthreads();
  reinterpret_cast<unsigned char*>(y + blockDim.x)[threadIdx.x] = 7;
}

__device__ float of_the_library[4];

__global__ void wrong(float* y, int n) {
  of_the_library[threadIdx.x] = y[0];
  y[threadIdx.x + n] = 1;
}
"""
OTHER = "__global__ void other(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1.0f; }"


def kernel(name: str) -> RawKernel:
    return RawKernel(CODE, name)


fill, fill_bfloat16 = kernel("fill<float>"), kernel("fill<__nv_bfloat16>")


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    runtime.record_writes(True)
    yield
    runtime.record_writes(False)


def bytes_of(array: Tensor | np.ndarray[Any, Any]) -> list[int]:
    begin = array.data_ptr() if isinstance(array, Tensor) else array.ctypes.data
    return list(runtime.written(begin, array.nbytes))


def elements_of(array: Tensor | np.ndarray[Any, Any]) -> list[bool]:
    """Whether a kernel wrote each element: all of its bytes."""
    found, width = bytes_of(array), array.itemsize
    return [all(found[at : at + width]) for at in range(0, len(found), width)]


def test_the_half_that_a_kernel_writes() -> None:
    y = torch.zeros(2000)
    fill(4, 256, (y, 1000, 1, 1.5))
    assert elements_of(y) == [True] * 1000 + [False] * 1000


def test_zeros_over_zeros_are_written() -> None:
    y = np.zeros(8, dtype=np.float32)
    fill(1, 32, (y, 5, 1, 0.0))
    assert elements_of(y) == [True] * 5 + [False] * 3


def test_what_torch_overwrites_is_the_kernels_no_more() -> None:
    y = torch.zeros(64)
    fill(1, 64, (y, 64, 1, 1.5))
    y[:10] = 0.0
    y[20:].sin_()
    assert elements_of(y) == [False] * 10 + [True] * 10 + [False] * 44
    assert any(bytes_of(y[20:]))  # sin(1.5) and 1.5 have a byte in common
    assert elements_of(torch.full_like(y, 1.5)) == [False] * 64  # a copy is torch's


def test_a_later_launch_replaces_an_earlier_one() -> None:
    y = torch.zeros(8)
    fill(1, 32, (y, 8, 1, 1.5))
    y.fill_(2)
    fill(1, 32, (y, 3, 1, 2.0))
    assert elements_of(y[:3]) == [True] * 3
    y.fill_(1.5)  # the elements that the first launch left
    assert elements_of(y[3:]) == [True] * 5


def test_every_other_element() -> None:
    y = torch.zeros(10_000)
    fill(20, 256, (y, 5000, 2, 1.5))
    assert elements_of(y) == [True, False] * 5000
    part = torch.zeros(8)[1::3]
    fill(1, 32, (part, 2, 3, 1.5))
    assert [elements_of(element)[0] for element in part.split(1)] == [True, True, False]


def test_bfloat16() -> None:
    y = torch.zeros(100, dtype=torch.bfloat16)
    fill_bfloat16(1, 64, (y, 33, 1, 1.5))
    assert elements_of(y) == [True] * 33 + [False] * 67


def test_an_atomic_and_a_volatile_write_count_and_a_compare_and_swap_that_fails_does_not() -> None:
    values = np.zeros(3, dtype=np.int32)
    kernel("count")(2, 1, (values[:1], values[1:2], values[2:]))
    assert (values.tolist(), elements_of(values)) == ([2, 0, 3], [True, False, True])


def test_accesses_of_different_widths() -> None:
    y = np.zeros(5, dtype=np.dtype([("first", np.int32), ("second", np.int32)]))
    kernel("narrower")(1, 3, (y,))
    assert bytes_of(y) == [1] * 27 + [0] * 13


def test_kernels_of_one_library_count_and_others_take_from_them(tmp_path: Path) -> None:
    y, z = torch.zeros(8), torch.zeros(8)
    link = tmp_path / "library.so"
    link.symlink_to(fill._library.path)
    runtime.record_writes(True, link)
    fill(1, 32, (y, 8, 1, 1.0))
    other = RawKernel(OTHER, "other")
    other(1, 32, (y, 3))
    other(1, 32, (z, 3))
    assert elements_of(y) == [False] * 3 + [True] * 5
    assert elements_of(z) == [False] * 8
    with pytest.raises(FileNotFoundError):
        runtime.record_writes(True, tmp_path / "none.so")


def test_all_schedules_are_one_call() -> None:
    y = torch.zeros(300)
    with runtime.schedules(3):
        fill(2, 128, (y, 200, 1, 1.5))
    assert elements_of(y) == [True] * 200 + [False] * 100


def test_it_is_recorded_between_on_and_off_until_it_is_on_again() -> None:
    y, z = torch.zeros(4), torch.zeros(4)
    fill(1, 32, (y, 4, 1, 1.5))
    runtime.record_writes(False)
    fill(1, 32, (z, 4, 1, 1.5))
    assert elements_of(torch.cat([y, z])) == [False] * 8
    assert (elements_of(y), elements_of(z)) == ([True] * 4, [False] * 4)
    runtime.record_writes(True)
    assert elements_of(y) == [False] * 4


def test_a_launch_without_checks_or_that_fails_has_written_nothing() -> None:
    y = torch.zeros(4)
    RawKernel(CODE, "fill<float>", checks=False)(1, 32, (y, 4, 1, 1.5))
    with pytest.raises(KernelFault):
        kernel("wrong")(1, 4, (y, 1))
    assert elements_of(y) == [False] * 4


def test_parts_of_an_element_and_no_bytes() -> None:
    y = torch.zeros(4)
    fill(1, 32, (y, 2, 1, 1.5))
    assert runtime.written(y.data_ptr() + 6, 4) == b"\1\1\0\0"
    assert runtime.written(y.data_ptr(), 0) == b""
    with pytest.raises(ValueError, match="size must not be negative, but is -1"):
        runtime.written(y.data_ptr(), -1)
