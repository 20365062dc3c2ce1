"""RawKernel: kernels of ordinary CUDA text are called with CuPy's arguments, and checked."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from trifold import KernelFault, OutOfBounds
from trifold.cpu import RawKernel, runtime
from trifold.errors import BuildError, LaunchError

PROGRAMS = Path(__file__).with_name("programs")

CODE = r"""
#include <cuda_runtime.h>

struct Line { float slope; int offset; };

template <typename T>
__global__ void scale(const T* __restrict__ x, T* y, int n, T factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = factor * x[i];
}

__global__ void lines(float* y, Line line, bool negate, unsigned char shift, long long far) {
  const int i = threadIdx.x;
  y[i] = (negate ? -1.0f : 1.0f) * line.slope * (i + line.offset + shift) + (far >> 40);
}

__global__ void mirror(float* x) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = x[threadIdx.x];
#ifndef NO_BARRIER
  __syncthreads();
#endif
  x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void rows(const float* x, float* y, int row, int column) {
  y[threadIdx.y * blockDim.x + threadIdx.x] = x[threadIdx.y * row + threadIdx.x * column];
}

void host_function(float* x, float* y, int n) { scale<<<(n + 255) / 256, 256>>>(x, y, n - 1, 2.0f); }
"""


def kernel(name: str, *, checks: bool = True, options: tuple[str, ...] = ()) -> RawKernel:
    return RawKernel(CODE, name, options, checks=checks)


@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
def test_a_template_kernel_runs_on_tensors_and_arrays(checks: bool) -> None:
    scale = kernel("scale<float>", checks=checks)
    x, y = torch.arange(1000.0), np.zeros(1000, dtype=np.float32)
    scale((4,), (256,), (x, y, np.int32(999), 2.5))
    np.testing.assert_array_equal(y, 2.5 * x.numpy())
    scale(4, 256, (y, x, 999, np.float64(2)))
    assert torch.equal(x, torch.from_numpy(5 * np.arange(1000, dtype=np.float32)))


def test_many_blocks_run_on_torchs_threads() -> None:
    x = torch.rand(300_000)
    y = torch.empty_like(x)
    kernel("scale<float>", checks=False)(-(-x.numel() // 256), 256, (x, y, x.numel() - 1, 3))
    assert torch.equal(y, 3 * x)


def test_values_and_structs_are_converted() -> None:
    line = np.zeros((), dtype=np.dtype([("slope", np.float32), ("offset", np.int32)], align=True))
    line["slope"], line["offset"] = 0.5, 10
    y = torch.empty(4)
    kernel("lines")(1, (4, 1, 1), (y, line[()], True, 200, 1 << 41))
    assert y.tolist() == [-0.5 * (i + 210) + 2 for i in range(4)]


def test_strided_and_expanded_tensors_are_memory_up_to_their_last_element() -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    part, y = whole[1:, 2:5].t(), torch.empty(3, 3)  # 3 × 3 with strides 1 and 6
    rows = kernel("rows")
    rows(1, (3, 3), (part, y, 1, 6))
    assert torch.equal(y, part)
    expanded = torch.tensor([7.0]).expand(3, 3)
    rows(1, (3, 3), (expanded, y, 0, 0))
    assert torch.equal(y, expanded)
    with pytest.raises(OutOfBounds, match=re.escape("x[16]")):  # the last element of `part` is 14 after the first
        rows(1, (3, 3), (part, y, 6, 2))


def test_a_finding_names_the_parameter_and_the_line_of_the_text() -> None:
    x, y = torch.arange(100.0), torch.zeros(100)
    with pytest.raises(OutOfBounds) as caught:
        kernel("scale<float>")(1, 128, (x, y, 100, 1.0))
    (finding,) = caught.value.findings
    assert (finding.kind, finding.array, finding.index) == ("out-of-bounds", "x", (100,))
    access = finding.accesses[0]
    assert CODE.splitlines()[access.line - 1].strip() == "if (i <= n) y[i] = factor * x[i];"
    assert access.line == Path(access.file).read_text().splitlines().index("  if (i <= n) y[i] = factor * x[i];") + 1


def test_dynamic_shared_memory_is_checked() -> None:
    mirror, x = kernel("mirror"), np.arange(32, dtype=np.float32)
    mirror(1, 32, (x,), shared_mem=128)
    assert x.tolist() == list(range(31, -1, -1))
    with pytest.raises(OutOfBounds, match=re.escape("dynamic shared memory[31]")):
        mirror(1, 32, (x,), shared_mem=124)
    with pytest.raises(KernelFault, match=r"race|uninitialised"):
        kernel("mirror", options=("-DNO_BARRIER",))(1, 32, (x,), shared_mem=128)


@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
def test_a_launch_is_within_the_kernels_bounds(checks: bool) -> None:
    code = "template <int n>\n__global__ void __launch_bounds__(n, 1) k(float* y) { y[threadIdx.x] = 1; }"
    bounded, y = RawKernel(code, "k<32>", checks=checks), torch.zeros(64)
    bounded(1, 32, (y,))
    with pytest.raises(LaunchError, match=r"k<32> is .* blocks of 33 × 1 × 1 threads: its __launch_bounds__ allow 32;"):
        bounded(1, 33, (y,))
    assert y.sum() == 32


def test_each_schedule_starts_from_the_same_arrays() -> None:
    x = torch.arange(32.0)
    with runtime.schedules(4):
        kernel("mirror")(1, 32, (x,), shared_mem=128)
    assert torch.equal(x, torch.arange(32.0).flip(0))


def test_the_kernels_of_a_torch_extension_run_without_torchs_headers() -> None:
    x = 5 * torch.randn(1000, dtype=torch.float64)
    y = torch.empty_like(x)
    RawKernel(PROGRAMS / "round_ste.cu", "round_forward<double>")(4, 256, (x, y, 1000))
    assert torch.equal(y, x.round())
    RawKernel(PROGRAMS / "round_ste.cu", "round_backward<double>")(1, 256, (x, y, 1000))
    assert torch.equal(y, x)


def test_headers_of_the_users_own_lie_in_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "include" / "deep").mkdir(parents=True)
    (tmp_path / "include" / "deep" / "value.cuh").write_text("#pragma once\n__device__ int value() { return VALUE; }\n")
    (tmp_path / "include" / "all.cuh").write_text('#include "deep/value.cuh"\n#include <deep/value.cuh>\n')
    monkeypatch.chdir(tmp_path)
    x = np.zeros(1, dtype=np.int32)
    code = "#include <all.cuh>\n__global__ void k(int* x) { *x = value(); }"
    RawKernel(code, "k", ("-Iinclude", "-DVALUE=9", "--std=c++17"))(1, 1, (x,))
    assert x[0] == 9


def read_only(n: int) -> np.ndarray:
    array = np.zeros(n, dtype=np.float32)
    array.flags.writeable = False
    return array


F = torch.zeros(4)
BAD_ARGUMENTS: dict[str, tuple[tuple[object, ...], str]] = {
    "too few": ((F, F), "takes 4 arguments, but 2 were given"),
    "float64 for float*": ((F.double(), F, 1, 1.0), "parameter x points to float32, but was given an array of float64"),
    "a number for a pointer": ((F, 3, 1, 1.0), "parameter y is a pointer, but was given int"),
    "not writable": ((F, read_only(4), 1, 1.0), "parameter y may be written, but was given an array that is not"),
    "a fraction for an int": ((F, F, 1.5, 1.0), "parameter n is int32, but was given float"),
    "too large for an int": ((F, F, 1 << 31, 1.0), "parameter n is int32, which does not hold 2147483648"),
    "a tensor for a value": ((F, F, 1, F), "parameter factor is float32, but was given Tensor of torch.float32"),
    "a sparse tensor": ((F.to_sparse(), F, 1, 1.0), "parameter x was given a sparse tensor"),
    "a leaf of autograd": ((F, torch.zeros(4, requires_grad=True), 1, 1.0), "parameter y may be written"),
}


@pytest.mark.parametrize("what", BAD_ARGUMENTS)
def test_a_wrong_argument_is_refused_by_the_parameters_name(what: str) -> None:
    args, says = BAD_ARGUMENTS[what]
    with pytest.raises(LaunchError, match=re.escape(says)):
        kernel("scale<float>")(1, 1, args)


def test_arrays_that_are_only_read_may_be_read_only() -> None:
    y = torch.ones(4)
    kernel("scale<float>")(1, 4, (read_only(4), y, 3, 1.0))
    assert torch.equal(y, torch.zeros(4))


@pytest.mark.parametrize(("grid", "block"), [(0, 1), ((1, 2, 3, 4), 1), (1, (1, -1)), (1.5, 1)], ids=str)
def test_a_wrong_grid_is_refused(grid: int, block: int) -> None:
    with pytest.raises(LaunchError, match="must be one to three positive numbers"):
        kernel("scale<float>")(grid, block, (F, F, 1, 1.0))


@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
def test_a_launch_that_no_device_takes_is_refused_and_the_next_is_right(checks: bool) -> None:
    mirror, x = kernel("mirror", checks=checks), torch.arange(4.0)
    with pytest.raises(LaunchError, match="a block has 1 to 1024"):
        mirror(1, 2048, (x,))
    mirror(1, 4, (x,), shared_mem=16)
    assert x.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("nothing", (), "has no kernel named nothing"),
        ("scale", (), "is a template"),
        ("scale<", (), "name must be a kernel's name"),
        ("mirror", ("--shiny",), "'--shiny' is not an option of the build"),
    ],
)
def test_what_cannot_be_built_is_refused(name: str, options: tuple[str, ...], says: str) -> None:
    with pytest.raises((BuildError, LaunchError), match=says):
        kernel(name, options=options).compile()


def test_a_compilers_error_shows_the_line_of_the_text() -> None:
    with pytest.raises(BuildError, match=r"\.cu:2:\d+: error: 'missing' was not declared"):
        RawKernel("__global__ void k(float* x) {\n  missing(x);\n}", "k").compile()


def test_a_tensor_of_another_name_is_the_same_memory() -> None:
    x: Tensor = torch.arange(5.0)
    with pytest.raises(KernelFault, match="race"), runtime.schedules(2):
        RawKernel("__global__ void k(const float* a, float* b) { b[threadIdx.x] = a[threadIdx.x + 1]; }", "k")(
            1, 4, (x, x)
        )


def test_limits_are_those_of_the_named_compute_capability() -> None:
    x = np.arange(4, dtype=np.float32)
    old = RawKernel(CODE, "mirror", checks=False, compute_capability="sm_75")
    with pytest.raises(LaunchError, match=r"a block has at most 65536 \(compute capability 7.5\)"):
        old((1,), (4,), (x,), shared_mem=65540)
    kernel("mirror", checks=False)((1,), (4,), (x,), shared_mem=65540)
    assert x.tolist() == [3, 2, 1, 0]
    with pytest.raises(LaunchError, match=r"compute capability '5\.0' is not known"):
        RawKernel(CODE, "mirror", compute_capability="5.0")


CLUSTERS = """
#include <cooperative_groups.h>

__global__ void pass_on(const float* x, float* y) {
  __shared__ float value;
  const auto cluster = cooperative_groups::this_cluster();
  const unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  if (threadIdx.x == 0) value = x[block];
  cluster.sync();
  const int next = (cluster.block_rank() + 1) % cluster.num_blocks();
  if (threadIdx.x == 0) y[block] = *cluster.map_shared_rank(&value, next);
  cluster.sync();
  if (cooperative_groups::this_grid().is_valid()) cooperative_groups::this_grid().sync();
}
"""


@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
def test_a_launch_in_clusters_and_a_cooperative_one(checks: bool) -> None:
    pass_on = RawKernel(CLUSTERS, "pass_on", checks=checks)
    x, y = torch.arange(12.0), torch.zeros(12)
    pass_on(12, 32, (x, y), cluster=4)
    assert torch.equal(y, x.reshape(3, 4).roll(-1, 1).flatten())
    pass_on((6, 2), 32, (x, y), cluster=(3, 2), cooperative=True)
    assert torch.equal(y, torch.tensor([1.0, 2, 6, 4, 5, 9, 7, 8, 0, 10, 11, 3]))
    with pytest.raises(LaunchError, match="cannot be divided"):
        pass_on(12, 32, (x, y), cluster=5)
    with pytest.raises(LaunchError, match="cluster must be one to three positive numbers"):
        pass_on(12, 32, (x, y), cluster=0)
