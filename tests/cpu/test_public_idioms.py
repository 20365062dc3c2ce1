"""Features that public CUDA programs use: libcu++'s atomics, copies of groups, variables of the device, shared arrays
viewed as vectors, and attributes that a launch needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAMS = Path(__file__).with_name("programs")


def line_of(program: Path, text: str) -> int:
    (number,) = [at for at, line in enumerate(program.read_text().splitlines(), 1) if text in line]
    return number


@pytest.mark.parametrize(
    ("name", "prints"),
    [
        ("atomics", "42 16 0\n"),
        ("variables", "8 tickets, 1 1 1 1\n"),
        ("shared_views", "16 16\n"),
        ("group_copies", "2080 136 392 648 904\n"),
    ],
)
def test_a_right_program_is_clean_in_each_order(name: str, prints: str, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAMS / f"{name}.cu", schedules=3)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == prints


@pytest.mark.parametrize("mode", ["relaxed", "block"])
def test_a_flag_that_does_not_publish_is_a_race_of_the_data(mode: str) -> None:
    program = PROGRAMS / "atomics.cu"
    finding = sanitize(program, [mode]).findings[0]
    lines = {access.line for access in finding.accesses}
    assert finding.kind == "race"
    # With a scope that excludes the other block, the flag's own accesses may race first.
    wanted = {
        line_of(program, "data[0] = 42;"),
        line_of(program, "published.store"),
        line_of(program, "data[1] = data[0];"),
    }
    assert lines & wanted


def test_what_ldmatrix_reads_of_other_lanes_is_a_race_and_no_unwritten_memory() -> None:
    program = PROGRAMS / "shared_views.cu"
    (finding,) = sanitize(program, ["unordered"]).findings
    assert finding.kind == "race"
    assert line_of(program, "// written") in {access.line for access in finding.accesses}


def test_large_dynamic_shared_memory_must_be_allowed_first(tmp_path: Path) -> None:
    program = tmp_path / "large.cu"
    program.write_text(
        """#include <cstdio>
template <class T> __global__ void fill(T* x) {
  extern __shared__ unsigned char bytes[];
  reinterpret_cast<T*>(bytes)[16000] = 1;
  x[0] = reinterpret_cast<T*>(bytes)[16000];
}
int main(int argc, char**) {
  float* x;
  cudaMalloc(&x, 4);
  if (argc > 1) cudaFuncSetAttribute(fill<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
  fill<<<1, 1, 64 << 10>>>(x);
  cudaFree(x);
  return cudaGetLastError();
}
"""
    )
    assert sanitize(program, ["allowed"]).entries == []
    report = sanitize(program)
    (problem,) = report.problems
    assert "large.cu:11 fails: its 65536 bytes of dynamic shared memory are more than the 49152" in problem
    assert "cudaFuncSetAttribute" in problem


def test_complex_numbers_of_thrust_are_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "waves.cu"
    program.write_text(
        """#include <thrust/complex.h>
#include <cstdio>
__global__ void square(thrust::complex<float>* z, float* y) {
  z[threadIdx.x] *= thrust::conj(z[threadIdx.x]) + thrust::complex<float>(0, 1);
  y[threadIdx.x] = thrust::abs(z[threadIdx.x]);
}
int main() {
  thrust::complex<float>* z;
  float *y, host;
  cudaMalloc(&z, 2 * sizeof *z);
  cudaMalloc(&y, 2 * sizeof *y);
  thrust::complex<float> values[2] = {{0, 2}, {3, 4}};
  cudaMemcpy(z, values, sizeof values, cudaMemcpyHostToDevice);
  square<<<1, 2>>>(z, y);
  cudaMemcpy(&host, y, sizeof host, cudaMemcpyDeviceToHost);
  printf("%g\\n", host);
  cudaFree(z);
  cudaFree(y);
}
"""
    )
    assert sanitize(program).entries == []
    assert capfd.readouterr().out == "2\n"
