"""Unsupported code is reported at its line; and the translation of `extern __shared__` lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cpu.workspace import op_of
from trifold.build import launch_bounds
from trifold.build.compile import build
from trifold.build.shared_arrays import rewrite
from trifold.build.unsupported import feature_of
from trifold.errors import BuildError

BINDING = '#include <trifold/binding.h>\n#include "{name}.cuh"\nTRIFOLD_LIBRARY(m) {{}}\n'


def problem_of(name: str, header: str, root: Path, *, checked: bool = True) -> str:
    files = op_of(name, root, cu=BINDING.format(name=name), cuh=header, py="")
    with pytest.raises(BuildError) as caught:
        build(files, "cpu", "trifold_test", form="checked" if checked else "fast")
    return str(caught.value)


def test_an_instruction_of_ptx_that_the_cpu_lacks_is_named_at_its_line(tmp_path: Path) -> None:
    header = """#include <trifold/cuda.cuh>
__global__ void lanes_kernel(unsigned* y) {
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;"
               "mapa.u32 %0, %0, 1;"
               : "=r"(lane));
  y[0] = lane;
}
"""
    problem = problem_of("lanes", header, tmp_path)
    assert re.search(
        r"cuda_src/lanes\.cuh:5:\d+: error: inline PTX: mapa\.u32 is not yet on the CPU: write it", problem
    )


def test_asm_of_host_code_is_named_at_its_line_though_only_the_assembler_refuses_it(tmp_path: Path) -> None:
    header = """#include <trifold/cuda.cuh>
inline int answer() {
  int number;
  asm volatile("nonsense %0;" : "=r"(number));
  return number;
}
__global__ void lanes_kernel(unsigned* y) { y[0] = answer(); }
"""
    problem = problem_of("lanes", header, tmp_path)
    assert re.search(r"cuda_src/lanes\.cuh:4: error: asm outside of device functions cannot be compiled", problem)


def test_other_features_are_named_at_their_lines(tmp_path: Path) -> None:
    header = """#include <trifold/cuda.cuh>
__global__ void surface_kernel(cudaSurfaceObject_t image, float* y) { y[0] = 1; }
__global__ void texture_kernel(cudaTextureObject_t image, float* y) {
  y[0] = 0;
}
__global__ void parent_kernel(float* y) {
  parent_kernel<<<1, 32>>>(y);
}
"""
    problem = problem_of("others", header, tmp_path)
    for line, name in ((2, "a surface"), (3, "a texture"), (7, "a launch with <<<...>>>")):
        assert f"others.cuh:{line}: error: {name} cannot be compiled for the CPU" in problem


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "wmma::fragment<a, 8, 8, 32, wmma::experimental::precision::u4, b> f;",
            "a tensor-core fragment of less than 8 bits",
        ),
        ("float v = tex2DLod<float>(t, x, y, 0);", "a mipmap, a cubemap or a gather of a texture"),
        ("surf2Dwrite(v, s, x, y);", "a surface"),
        ("__nv_fp6_e3m2 x;", "a float of less than 8 bits"),
        ("__nv_fp8_e4m3 x;", None),
        ("cuda::stream_ref s(stream);", "a part of libcu++ (cuda::) that docs/ports-on-the-cpu.md does not list"),
        ("cuda::binary_semaphore<cuda::thread_scope_device> s(1);", None),
        ("curandGenerateUniform(generator, x, n);", "cuRAND's host API"),
        ("__shared__ curandStateMtgp32 state;", "a generator of cuRAND's quasi-random numbers or its Mersenne twister"),
        ("curand_init(seed, i, 0, &state);", None),
        ("cuTensorMapEncodeIm2col(&map, type, 4, x, dims);", "a tensor map of im2col"),
        ("const __grid_constant__ CUtensorMap map;", None),
        ("cuda::atomic_ref<int, cuda::thread_scope_device> a(*p);", None),
        ("// asm volatile is not needed", None),
        ("int context = texture_size; plasma(1);", None),
    ],
)
def test_a_feature_is_known_by_its_line(line: str, name: str | None) -> None:
    feature = feature_of(line)
    assert (feature and feature.name) == name


@pytest.mark.parametrize(
    ("source", "changed", "defines"),
    [
        (
            "__global__ void k() {\n  extern __shared__ float tile[];\n}",
            "__global__ void k() {\n  float (&tile)[] = ::trifold::cpu::DynamicShared();\n}",
            False,
        ),
        (
            "void f() { extern __shared__ __align__(sizeof(T)) unsigned char raw [ ] ; }",
            "void f() { unsigned char (&raw)[] = ::trifold::cpu::DynamicShared(); }",
            False,
        ),
        (
            "namespace a { namespace {\nextern __shared__ int x[];\n} }",
            'namespace a { namespace {\nextern __shared__ int x[] __asm__("trifold_extern_shared");\n} }',
            True,
        ),
        (
            "void f() { extern float __shared__ s[]; }",
            "void f() { float (&s)[] = ::trifold::cpu::DynamicShared(); }",
            False,
        ),
        (
            "void f() { if (x) { } unsigned int extern\n__align__(16) __shared__ s[][N + 1]; }",
            "void f() { if (x) { } unsigned int (&s)[][N+1] = ::trifold::cpu::DynamicShared();\n }",
            False,
        ),
        (
            "#define X\nfloat extern __shared__ s[] __attribute__((aligned(16)));",
            '#define X\nfloat extern __shared__ s[] __asm__("trifold_extern_shared") __attribute__((aligned(16)));',
            True,
        ),
        ('const char* s = "{";\n/* extern __shared__ int x[]; { */', None, False),
        ("void f() { __shared__ int x[3]; extern int y[]; }", None, False),
    ],
)
def test_extern_shared_arrays_become_dynamic_shared_memory(source: str, changed: str | None, defines: bool) -> None:
    assert rewrite(source) == (changed or source, defines)


BOUNDS = " [[gnu::used]] static constexpr unsigned trifold_launch_bounds = ::trifold::cpu::launch_bounds({});"


@pytest.mark.parametrize(
    ("head", "bounds"),
    [
        ("__global__ void __launch_bounds__(256) k(float* x) {", "256"),
        (
            "__launch_bounds__ (Choice<T, 2>::threads,\n  2) void __global__ k(float* x) // ({\n{",
            "Choice<T, 2>::threads, 2",
        ),
        ("__global__ void __launch_bounds__(f(3)) k(P<T, 2> p = {}, int n[2] = {}) requires(sizeof(T) > 2) {", "f(3)"),
        ("__global__ void __launch_bounds__(n) k(Row<n> x, int m) {", "n"),
        ("__global__ void __launch_bounds__(n) k(Row<m> x, int n) {", None),
        ("__global__ void __launch_bounds__(n) k(float (*x)[2], int n = 3) {", None),
        ("__global__ void __launch_bounds__(256) k(float* x); void f() {", None),
        ("#define KERNEL __global__ \\\n __launch_bounds__(256)\nvoid f() {", None),
        ("// __launch_bounds__(256)\nvoid f() {", None),
        ("__launch_bounds__(256", None),
    ],
)
def test_launch_bounds_become_a_constant_of_the_kernel(head: str, bounds: str | None) -> None:
    body = " x[0] = f({1}); }\n"
    assert launch_bounds.rewrite(head + body) == head + (BOUNDS.format(bounds) if bounds else "") + body
