"""Kernels of an extension of torch that has several files, and headers of its own around torch's."""

from __future__ import annotations

from pathlib import Path

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


def test_an_accessor_is_refused_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "accessor.cu"
    file.write_text(
        "#include <torch/extension.h>\n"
        "__global__ void one(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> x) { x[0][0] = 1; }\n"
    )
    with pytest.raises(BuildError, match=r"accessor\.cu:2:\d+: error: an accessor of a tensor .* a pointer"):
        RawKernel(file, "one")((1,), (1,), (torch.zeros(2, 2),))


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
