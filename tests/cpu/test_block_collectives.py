"""CUB's collectives on the CPU: all forms, kernels in the manner of public ones, and a mistake in most of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.cpu.workspace import op_of
from trifold import KernelFault
from trifold.cpu import RawKernel
from trifold.implementation import load_checked_port, load_port
from trifold.sanitize.program import sanitize

PROGRAMS = Path(__file__).with_name("programs")
KERNELS = PROGRAMS / "block_collectives.cu"
LINES = KERNELS.read_text(encoding="utf-8").splitlines()
MISTAKES = re.findall(r"^  (\w+),", "\n".join(LINES), re.MULTILINE)[:8]


def test_every_form_has_the_result_that_cub_documents(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAMS / "collective_forms.cu")
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == "right\n"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_right_kernels_are_clean_in_each_order(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(KERNELS, seed=seed)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == "done\n"


@pytest.mark.parametrize(
    ("kernel", "mistake", "kinds", "marks"),
    [
        ("softmax", "no_barrier", {"race", "uninitialised read"}, {"written", "read"}),
        ("moments", "no_barrier", {"race"}, {"first", "second"}),
        ("welford", "early_return", {"uninitialised read"}, {"combined"}),
        ("arg_max", "in_a_branch", {"barrier divergence"}, {"elsewhere", "first"}),
        ("running_sum", "no_barrier", {"race"}, {"loads", "scans"}),
        ("running_sum", "too_many_valid", {"out-of-bounds"}, {"loads"}),
        ("compact", "no_barrier", {"race"}, {"scans"}),
        ("sort_pairs", "no_barrier", {"race"}, {"sorts", "exchanges"}),
        ("sort_bits", "in_two_branches", {"barrier divergence"}, {"one", "other"}),
        ("histogram", "no_barrier", {"race"}, {"counts", "read"}),
        ("runs", "no_barrier", {"race"}, {"counted", "risen"}),
        ("warp_rows", "storage_of_one", {"out-of-bounds"}, {"summed"}),
        ("short_rows", "storage_of_one", {"race"}, {"sums"}),
    ],
)
@pytest.mark.parametrize("seed", [0, 5])
def test_a_mistake_is_found_at_the_lines_of_the_kernel(
    kernel: str, mistake: str, kinds: set[str], marks: set[str], seed: int
) -> None:
    report = sanitize(KERNELS, [kernel, str(MISTAKES.index(mistake))], seed=seed)
    (finding,) = report.errors
    assert finding.kind in kinds
    for access in finding.accesses:
        if Path(access.file) == KERNELS:
            assert LINES[access.line - 1].split("// ")[-1] in marks, access


@pytest.mark.parametrize(
    ("kernel", "mistake", "says", "mark"),
    [
        ("mean_of_some", "too_many_valid", "a BlockReduce of 500 valid items in a block of 96 threads", "first"),
        ("rotate", "wrong_block", "a BlockShuffle for blocks of 128 threads in a block of 256", "first"),
    ],
)
def test_what_a_block_is_too_small_or_too_large_for(kernel: str, mistake: str, says: str, mark: str) -> None:
    (problem,) = sanitize(KERNELS, [kernel, str(MISTAKES.index(mistake))]).problems
    assert says in problem
    line = re.search(r"block_collectives\.cu:(\d+)$", problem)
    assert line is not None
    assert LINES[int(line[1]) - 1].endswith(f"// {mark}")


@pytest.mark.parametrize("checks", [True, False])
def test_a_raw_kernel_with_a_header_of_one_collective(checks: bool) -> None:
    mean = RawKernel(
        """
#include <cub/block/block_reduce.cuh>
template <typename T> __global__ void mean(const T* x, T* y, int n) {
  typedef cub::BlockReduce<T, 256> BlockReduce;
  __shared__ typename BlockReduce::TempStorage temp_storage;
  T sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
  sum = BlockReduce(temp_storage).Reduce(sum, cub::Sum(), min(n, blockDim.x));
  if (threadIdx.x == 0) y[blockIdx.x] = sum / n;
}""",
        "mean<float>",
        checks=checks,
    )
    x, y = torch.arange(600.0).reshape(3, 200), torch.zeros(3)
    mean(3, 256, (x, y, 200))
    assert torch.equal(y, x.mean(1))


def test_keys_as_unsigned_numbers_are_in_the_same_order() -> None:
    twiddle = RawKernel(
        """
#include <cub/util_type.cuh>
template <typename T> __global__ void twiddle(const T* x, long long* bits, T* back) {
  using Traits = cub::Traits<T>;
  using Bits = typename Traits::UnsignedBits;
  Bits key = Traits::TwiddleIn(reinterpret_cast<const Bits&>(x[threadIdx.x]));
  bits[threadIdx.x] = key;
  key = Traits::TwiddleOut(key);
  back[threadIdx.x] = reinterpret_cast<T&>(key);
}""",
        "twiddle<float>",
    )
    x = torch.tensor([-float("inf"), -3e38, -1.5, -1e-45, -0.0, 0.0, 1e-45, 2.0, 3e38, float("inf")])
    bits, back = torch.zeros(len(x), dtype=torch.int64), torch.zeros_like(x)
    twiddle(1, len(x), (x, bits, back))
    assert torch.equal(bits.sort().values, bits)
    assert len(bits.unique()) == len(x)
    assert torch.equal(back, x)


KERNEL = """#pragma once
#include <cub/cub.cuh>
#include <trifold/cuda.cuh>

// Of a row, the sum and its sorted values.
__global__ void sorted_kernel(const float* x, float* y, bool waits) {
  using Sort = cub::BlockRadixSort<float, 64, 2>;
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ union { typename Sort::TempStorage sort; typename Reduce::TempStorage reduce; } temp;
  float own[2];
  cub::LoadDirectBlocked(threadIdx.x, x, own);
  const float sum = Reduce(temp.reduce).Sum(own);
  if (waits) __syncthreads();
  Sort(temp.sort).Sort(own);
  cub::StoreDirectBlocked(threadIdx.x, y, own);
  if (threadIdx.x == 0) y[0] = sum;
}
"""
BINDING = """#include <trifold/binding.h>

#include "sorted.cuh"

namespace {
trifold::Tensor sorted(const trifold::Tensor& x, bool waits) {
  const trifold::Tensor y = trifold::elementwise_output(x);
  const trifold::Stream stream;
  trifold::launch<sorted_kernel>(stream, 1, 64, 0, trifold::data<float>(x), trifold::mutable_data<float>(y), waits);
  return y;
}
}  // namespace

TRIFOLD_LIBRARY(m) { trifold::implement<&sorted>(m, "sorted"); }
"""
PORT = """from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define("sorted(Tensor x, bool waits) -> Tensor", fake=lambda x, waits: elementwise_output(x))


def sorted(x: Tensor, waits: bool) -> Tensor:
    result: Tensor = op.sorted(x, waits)
    return result


op = wire(__name__, register)
"""


def test_the_port_of_an_op(tmp_path: Path) -> None:
    files = op_of("sorted", tmp_path, cuh=KERNEL, cu=BINDING, py=PORT)
    x = torch.rand(128)
    wanted = x.sort().values
    wanted[0] = x.sum()
    torch.testing.assert_close(load_port(files).function(x, True), wanted)
    checked = load_checked_port(files).function
    torch.testing.assert_close(checked(x, True), wanted)
    with pytest.raises(KernelFault, match="race on shared array element temp"):
        checked(x, False)
