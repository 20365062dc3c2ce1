"""Findings of asynchronous operations that a function starts for the kernel name the kernel's line as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trifold import KernelFault
from trifold.cpu import RawKernel
from trifold.findings import Access, Caller, Finding

HELPERS = """\
#include <cuda_pipeline.h>
// A separate function, as most are in a checked build; and one that is inlined.
__device__ void load(float* to, const float* from) {
  __pipeline_memcpy_async(to, from, 16);  // in load
}
__device__ __forceinline__ void load_inlined(float* to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"  // in load_inlined
               ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}
__device__ void load_two(float* to, const float* from) {
  load(to + 4, from + 4);
  load(to, from);  // in load_two
}
__device__ __forceinline__ void read_inlined(float* to, const float* tile) {
  to[threadIdx.x] = tile[threadIdx.x];
}
"""

KERNEL = """\
#include "helpers.cuh"
__global__ void copy(const float* x, float* y, int way) {
  __shared__ __align__(16) float tile[8];
  if (threadIdx.x == 0) {
    const auto both = [&] {
      load(tile, x);  // in the lambda
    };
    if (way == 0) load(tile, x);  // calls load
    if (way == 1) load_two(tile, x);  // calls load_two
    if (way == 2) load_inlined(tile, x);  // calls load_inlined
    if (way == 3) both();  // calls the lambda
  }
  __syncthreads();
  read_inlined(y, tile);  // reads
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("callers")
    (made / "helpers.cuh").write_text(HELPERS, encoding="utf-8")
    (made / "copy.cu").write_text(KERNEL, encoding="utf-8")
    return made


def found(way: int, folder: Path) -> Finding:
    x, y = np.ones(8, np.float32), np.zeros(4, np.float32)
    with pytest.raises(KernelFault) as caught:
        RawKernel(folder / "copy.cu", "copy")(1, 4, (x, y, way))
    (finding,) = caught.value.findings
    return finding


def source_of(at: Access | Caller) -> str:
    return Path(at.file).read_text(encoding="utf-8").splitlines()[at.line - 1]


@pytest.mark.parametrize(
    ("way", "marks"),
    [
        (0, ["in load", "calls load"]),
        (1, ["in load", "in load_two", "calls load_two"]),
        (2, ["in load_inlined", "calls load_inlined"]),
        (3, ["in load", "in the lambda", "calls the lambda"]),
    ],
)
def test_the_lines_of_the_calls_follow(way: int, marks: list[str], folder: Path) -> None:
    finding = found(way, folder)
    read, copied = finding.accesses
    assert copied.instruction == "cp.async"
    chain: list[Access | Caller] = [copied, *copied.callers]
    lines = [source_of(at) for at in chain]
    assert len(lines) == len(marks), finding
    assert all(line.endswith(mark) for line, mark in zip(lines, marks, strict=True)), finding
    assert f", called at {Path(copied.callers[0].file).name}:{copied.callers[0].line} in " in finding.message
    (caller,) = read.callers
    assert source_of(caller).endswith("// reads") and caller.function == "copy"
