"""Kernels of an extension of torch that has several files, and headers of its own around torch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trifold import KernelFault
from trifold.cpu import RawKernel
from trifold.errors import BuildError, LaunchError

HELPER = """
#ifndef HELPER_HPP
#define HELPER_HPP
#ifdef USE_ANOTHER_FRAMEWORK
#include "another.hpp"
#else
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <THC/THCAtomics.cuh>
using at::Tensor;
using at::Half;
typedef at::Half half_number;
struct Line { float slope, offset; };
inline at::IntArrayRef shape_of(const Tensor& x) { return x.sizes(); }
#endif
#endif
"""

KERNELS = """
#pragma once
#include "helper.hpp"

template <typename scalar_t>
C10_LAUNCH_BOUNDS_1(256)
__global__ void total(const scalar_t* x, at::opmath_type<scalar_t>* sum, int n) {
  CUDA_KERNEL_LOOP(i, n) gpuAtomicAdd(sum, static_cast<at::opmath_type<scalar_t>>(x[i]));
}

__global__ void halves(const float* x, half_number* y) {
  const Line line = {0.5f, 0};
  y[threadIdx.x] = Half(x[threadIdx.x] * line.slope + line.offset);
}
"""

LAUNCHER = """
#include "kernels.cuh"

void require(bool value) { TORCH_CHECK(value, "a check") int more = 0; }

static int blocks_for(int n) { return at::ceil_div(n, 256); }

void check_contiguous(const Tensor& x) { if (!x.is_contiguous()) throw 1; }

struct Stream : at::cuda::CUDAStream {};
using Table = std::vector<Tensor>;
void synchronize(Stream stream) { stream.synchronize(); }
Tensor slope(Tensor x) { return x; }
Table both(float* x) { synchronize({}); return {}; }
#define REGISTER(function) static auto function##_registered = &function
REGISTER(both);
#define INSTANCE(type) template struct Functor<Stream, type>
template <typename Stream, typename T> struct Functor { bool operator==(Tensor) { return true; } };
INSTANCE(float);

Tensor launch(Tensor x) {
  auto sum = at::zeros({1}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "total", [&] {
    total<scalar_t><<<blocks_for(x.numel()), 256>>>(x.data_ptr<scalar_t>(), sum.data_ptr<scalar_t>(), x.numel());
  });
  return sum;
}
"""


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    for name, text in (("helper.hpp", HELPER), ("kernels.cuh", KERNELS), ("launcher.cu", LAUNCHER)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "launcher.cu"


@pytest.mark.parametrize(("name", "dtype"), [("float", torch.float32), ("at::Half", torch.float16)])
def test_a_kernel_in_a_header_runs_with_the_names_of_torch_for_device_code(
    launcher: Path, name: str, dtype: torch.dtype
) -> None:
    x, total = torch.ones(1000, dtype=dtype), torch.zeros(1)
    RawKernel(launcher, f"total<{name}>")((2,), (256,), (x, total, 1000))
    assert total.item() == 1000


def test_another_name_of_a_half_type_is_that_type(launcher: Path) -> None:
    x, y = torch.arange(8.0), torch.zeros(8, dtype=torch.float16)
    RawKernel(launcher, "halves")((1,), (8,), (x, y))
    assert y.tolist() == [i / 2 for i in range(8)]


ACCESSORS = """
#include <torch/extension.h>

template <typename scalar_t>
using Gates = torch::PackedTensorAccessor32<const scalar_t, 3, torch::RestrictPtrTraits>;

template <typename scalar_t>
__device__ scalar_t sum(const at::TensorAccessor<const scalar_t, 1, at::RestrictPtrTraits, int>& row) {
  scalar_t total = 0;
  for (int i = 0; i < row.size(0); ++i) total += row[i];
  return total;
}

template <typename scalar_t>
__global__ void gate_sums(const Gates<scalar_t> gates,
                          torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> sums, int columns) {
  const int n = blockIdx.y;
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < columns) sums[n][c] = sum<scalar_t>(gates[n][c]);
}

__global__ void scale(torch::PackedTensorAccessor64<double, 1> x, double by) {
  for (int64_t i = threadIdx.x; i < x.size(0); i += blockDim.x) x[i] *= by;
}

torch::Tensor sums_of(torch::Tensor gates) {
  auto sums = torch::empty({gates.size(0), gates.size(1)}, gates.options());
  AT_DISPATCH_FLOATING_TYPES(gates.scalar_type(), "sums", ([&] {
    gate_sums<scalar_t><<<dim3(1, gates.size(0)), 256>>>(
        gates.packed_accessor32<const scalar_t, 3, torch::RestrictPtrTraits>(),
        sums.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), gates.size(1));
  }));
  return sums;
}
"""


def test_a_tensor_of_any_layout_is_indexed_by_its_accessor() -> None:
    gates = torch.arange(48.0, dtype=torch.float64).reshape(4, 3, 4).transpose(0, 2)
    sums = torch.zeros(3, 4, dtype=torch.float64).t()
    RawKernel(ACCESSORS, "gate_sums<double>")((1, 4), (32,), (gates, sums, 3))
    assert torch.equal(sums, gates.sum(2))
    array = np.arange(8.0)[::2]
    RawKernel(ACCESSORS, "scale")((1,), (3,), (array, 2.0))
    assert array.tolist() == [0, 4, 8, 12]


@pytest.mark.filterwarnings("ignore::trifold.KernelWarning")  # of the element that two threads write
def test_a_mistake_through_an_accessor_is_found() -> None:
    gates, sums = torch.ones(2, 3, 4), torch.zeros(2, 3)
    with pytest.raises(KernelFault, match=r"out-of-bounds read of global array .* index 24 is out of bounds"):
        RawKernel(ACCESSORS, "gate_sums<float>")((1, 2), (32,), (gates, sums, 4))


def test_nothing_is_written_through_a_const_accessor(tmp_path: Path) -> None:
    file = tmp_path / "written.cu"
    file.write_text(
        "#include <torch/extension.h>\n"
        "__global__ void one(const torch::PackedTensorAccessor32<float, 2> x) { x[0][0] = 1; }\n"
    )
    with pytest.raises(BuildError, match=r"written\.cu:2:\d+: error: assignment of read-only"):
        RawKernel(file, "one").compile()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(2, 3), torch.ones(2, 3), 3), "gates accesses a tensor of 3 dimensions, but was given one of 2"),
        ((torch.ones(2, 3, 4), torch.ones(2, 3).double(), 3), "sums points to float32, but was given an array of"),
        ((torch.ones(2, 3, 4), None, 3), "sums is an accessor of a tensor, but was given None"),
        (
            (torch.ones(1, 1, 1).expand(2, 3, 4).as_strided((1, 1, 1), (2**31, 1, 1)), torch.ones(2, 3), 3),
            "gates has sizes and strides of int32, which does not hold 2147483648",
        ),
    ],
)
def test_what_an_accessor_cannot_be_made_of_is_refused_by_name(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        RawKernel(ACCESSORS, "gate_sums<float>")((1, 2), (32,), arguments)


def test_the_launch_bounds_of_torch_are_bounds(launcher: Path) -> None:
    with pytest.raises(LaunchError, match="256"):
        RawKernel(launcher, "total<float>")((1,), (512,), (torch.ones(512), torch.zeros(1), 512))


def test_a_mistake_is_found_at_its_line_of_the_header(launcher: Path) -> None:
    with pytest.raises(KernelFault, match=r"out-of-bounds write .* in kernel halves") as raised:
        RawKernel(launcher, "halves")((1,), (9,), (torch.zeros(9), torch.zeros(8, dtype=torch.float16)))
    assert "kernels.cuh:13" in str(raised.value)


@pytest.mark.extended
@pytest.mark.parametrize(
    "alias",
    ["using namespace at;", "using namespace torch;", "using Tensor = at::Tensor;", "typedef torch::Tensor Tensor;"],
)
def test_host_code_is_left_out_by_whatever_name_it_has_for_a_tensor(tmp_path: Path, alias: str) -> None:
    file = tmp_path / "alone.cu"
    file.write_text(
        f"#include <torch/extension.h>\n{alias}\n__global__ void one(float* x) {{ x[threadIdx.x] = 1; }}\n"
        "namespace mine { float* data(Tensor x) { return x.data_ptr<float>(); } }\n",
        encoding="utf-8",
    )
    x = torch.zeros(4)
    RawKernel(file, "one")((1,), (4,), (x,))
    assert x.tolist() == [1] * 4
