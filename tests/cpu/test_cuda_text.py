"""Ordinary CUDA text is rewritten for g++: lines keep their numbers; what the CPU does not support is refused by
line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trifold.build.cuda_text import read_program
from trifold.cpu import RawKernel
from trifold.errors import BuildError

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.cu"))


def rewrite(folder: Path, text: str) -> str:
    path = folder / "program.cu"
    path.write_text(text)
    return next(iter(read_program(path).values())).text


@pytest.mark.parametrize(
    ("kernel", "callee"),
    [
        ("void add(int n, float* x)", "add"),
        ("template <class T, int n = 4> void add(int n, T* x)", "ns::add<T, 4>"),
        ("__global__ void add(int, float*); void add(int n, float* x)", "add"),
    ],
)
def test_a_launch_calls_the_function_that_stands_before_it(kernel: str, callee: str, tmp_path: Path) -> None:
    head, _, declared = kernel.rpartition("void ")
    text = rewrite(tmp_path, f"{head}__global__ void {declared} {{}}\nvoid f() {{ {callee}<<<1, 2>>>(n, NULL); }}\n")
    assert text.splitlines()[1] == (
        f'void f() {{ ::trifold::cpu::Configuration("{callee}", "n,x", 1, 2).launch_function({callee}, n, nullptr); }}'
    )


@pytest.mark.parametrize(
    ("kernels", "callee"),
    [
        ("template <class T> __global__ void add(int n, T* x) {}", "add"),
        ("template <class T, int m> __global__ void add(int n, T* x) {}", "add<float>"),
        ("template <class... T> __global__ void add(int n, float* x) {}", "add<float>"),
        ("__global__ void add(int n, float* x, int m = 1) {}", "add"),
        ("__global__ void add(int& n, float* x) {}", "add"),
        ("__global__ void add(int n, float* x) {} __global__ void add(int n, double* x) {}", "add"),
        ("__global__ void add(int n); __global__ void add(int n, float* x) {}", "add"),
    ],
    ids=[
        "deduced",
        "partly deduced",
        "a pack",
        "default",
        "a reference",
        "overloaded",
        "declared with other parameters",
    ],
)
def test_a_launch_calls_any_function_with_its_arguments(kernels: str, callee: str, tmp_path: Path) -> None:
    text = rewrite(tmp_path, f"{kernels}\nvoid f() {{ {callee}<<<1, 2>>>(n, NULL); }}\n")
    assert f".launch([=](const auto&... trifold_values) {{ {callee}(trifold_values...); }}" in text.splitlines()[1]


@pytest.mark.parametrize(
    "callee", ["k<float>", "ns::k", "table[i]", "ns::k<T, 4>", "(chosen)", "obj.member"], ids=lambda text: text
)
def test_a_launch_of_any_expression_is_read(callee: str, tmp_path: Path) -> None:
    text = rewrite(tmp_path, f"void f() {{ {callee}<<<grid, dim3(2, 2), 8, stream>>>(); }}")
    assert f"{{ {callee}(trifold_values...); }})" in text
    assert "<<<" not in text


def test_a_launch_in_a_macro_is_read(tmp_path: Path) -> None:
    text = rewrite(tmp_path, "#define RUN(k, n, ...) \\\n  k<<<(n), 32>>> \\\n  (__VA_ARGS__)\nint last;\n")
    assert 'Configuration("k", "", (n), 32)' in text
    assert text.splitlines()[3] == "int last;"


def test_a_launch_in_a_macro_may_be_on_several_lines(tmp_path: Path) -> None:
    text = rewrite(tmp_path, "#define RUN(k, n) \\\n  k<float,  \\\n  n>        \\\n  <<<1, n>>>(n)\nint last;\n")
    *macro, last = text.splitlines()
    assert all(line.endswith("\\") for line in macro[:-1])
    assert "k<float, n>(trifold_values...)" in text
    assert (len(macro), last) == (4, "int last;")


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "program.cu"
    path.write_bytes(b"\xef\xbb\xbfint x;\n")
    assert next(iter(read_program(path).values())).text == "int x;\n"


def test_comments_and_strings_stay_as_they_are(tmp_path: Path) -> None:
    text = '// k<<<1, 2>>>(x); asm("");\nconst char* s = "k<<<1, 2>>>(tex2D)";\n/* extern __shared__ int x[]; */\n'
    assert rewrite(tmp_path, text) == text


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_no_line_moves_in_a_program(path: Path) -> None:
    for file, source in read_program(path, drop_torch=True).items():
        assert source.text.count("\n") == file.read_text().count("\n")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["\n", " ", "/* x\n */", "// y\n"]), min_size=6, max_size=6))
def test_a_launch_over_several_lines_keeps_their_number(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[str]
) -> None:
    a, b, c, d, e, f = gaps
    text = f"void f() {{\n k{a}<<<{b}1,{c}2{d}>>>{e}({f}x);\n}}\nint after;\n"
    made = rewrite(tmp_path_factory.mktemp("text"), text)
    assert made.count("\n") == text.count("\n")
    assert made.splitlines()[-1] == "int after;"


REFUSED = {
    "inline PTX: mapa.u32 is not yet": (
        '__device__ int f(int a) {\n  int r;\n  asm("mapa.u32 %0, %1, 1;" : "=r"(r) : "r"(a));\n}',
        3,
    ),
    "a kernel that launches a kernel": ("__global__ void a() {}\n__global__ void b() { a<<<1, 1>>>(); }", 2),
    "a texture reference cannot be compiled for the CPU: CUDA 12 removed them": ("texture<float, 2> t;", 1),
    "a mipmap, a cubemap or a gather of a texture": ("__device__ void a() { surfCubemapwrite(v, s, x, y, 1); }", 1),
    "a tensor-core fragment of less than 8 bits": (
        "__global__ void a() {\n  wmma::fragment<wmma::matrix_a, 8, 8, 32, wmma::experimental::precision::u4> f;\n}",
        2,
    ),
    "inline PTX: wgmma.fence.sync.aligned is not yet": (
        '__device__ void f() {\n  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n}',
        2,
    ),
    "inline PTX: tcgen05.fence::before_thread_sync is not yet": (
        '__device__ void f() {\n  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");\n}',
        2,
    ),
    "a tensor map of im2col cannot be compiled for the CPU: encode a tiled one": (
        "void f(CUtensorMap* map) {\n  cuTensorMapEncodeIm2col(map);\n}",
        2,
    ),
    "inline PTX: cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes is not": (
        "__device__ void f(unsigned to, const void* map, int n, unsigned full, short w) {\n  asm volatile("
        '"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes '
        '[%0], [%1, {%2, %2, %2, %2}], [%3], {%4, %4};" ::"r"(to), "l"(map), "r"(n), "r"(full), "h"(w));\n}',
        2,
    ),
    "a cooperative launch on several devices": ("void f() {\n  cudaLaunchCooperativeKernelMultiDevice(list, 2);\n}", 2),
    "the kernel saxpy is called without <<<grid, block>>>, like a function: write saxpy<<<grid, block>>>(": (
        "__global__ void saxpy(int n, float* y) {}\nint main() {\n  saxpy(8, nullptr);\n}",
        3,
    ),
    "the kernel k is called without <<<grid, block>>>, like a function: what device code calls is a __device__": (
        "__global__ void k(int depth) {\n  if (depth > 0) k(depth - 1);\n}",
        2,
    ),
    "cuRAND's host API": ("#include <curand.h>\nvoid f() { curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT); }", 2),
    "a generator of cuRAND's quasi-random numbers": (
        "#include <curand_kernel.h>\n__device__ curandStateSobol32_t s;",
        2,
    ),
    "<thrust/shuffle.h>": ("#include <thrust/shuffle.h>", 1),
    "a part of Thrust that docs/cuda-programs.md does not list": (
        "#include <thrust/merge.h>\nvoid f() {\n  thrust::set_union_by_key(a, b, c, d, x, y, k, v);\n}",
        3,
    ),
    "a part of CUB that docs/cuda-programs.md does not list": (
        "#include <cub/cub.cuh>\nvoid f() {\n  cub::DeviceMergeSort::SortKeys(temp, bytes, x, n, less);\n}",
        3,
    ),
    "<torch/extension.h>": ("\n#include <torch/extension.h>", 2),
    "cudaGraphAddMemAllocNode": ("void f() {\n  cudaGraphAddMemAllocNode(&node, graph, 0, 0, &params);\n}", 2),
    "this launch cannot be read": ("#define OPEN k<<<1\nvoid f() { OPEN, 2>>>(x); }", 1),
}


KERNELS = """
__global__ void step(float* x);
namespace deep { namespace er { template <typename T> __global__ void fill(T* x, T value) { x[0] = value; } } }
__global__ void step(float* x) { x[0] = 1; }
__global__ void reduce(float* x) {}
void reduce(float* x, int n) { reduce<<<1, n>>>(x); }
"""
SOLVER = "struct Solver { void step(int n); void run() { step(1); } };\n"


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        ("step(x)", True),
        ("::step (\n x)", True),
        ("deep::er::fill<float>(x, 1)", True),
        ("er::fill(x, 1.0f)", True),
        ("step<<<1, 1>>>(x)", False),
        ("deep::er::fill<float><<<1, 1>>>(x, 1)", False),
        ("std::fill(x, x + 1, 0)", False),
        ("fill(v.begin(), v.end(), 0)", False),
        ("solver.step(3)", False),
        (f"}} {SOLVER} int h() {{ return 0", False),
        ("reduce(x, 3)", False),
        ("auto step = [](float*) {}; step(x)", False),
        ("const auto run = &step; time(step, x)", False),
    ],
)
def test_a_kernel_is_called_by_a_launch_alone(call: str, refused: bool, tmp_path: Path) -> None:
    text = rewrite(tmp_path, f"{KERNELS}void f(float* x) {{ {call}; }}\nvoid g(void (*step)(float*)) {{ step(0); }}\n")
    assert ("is called without" in text) == refused


def test_a_call_without_launch_is_a_compile_error_at_its_line() -> None:
    code = "__global__ void k(int* x) { x[0] = 1; }\n#define GO(x) k(x)\nvoid f(int* x) {\n  GO(x);\n}"
    with pytest.raises(BuildError, match=r"\.cu:[24]:\d+: error: the kernel k is called without <<<grid, block>>>"):
        RawKernel(code, "k").compile()


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_cpu_has_not_becomes_an_error_at_its_line(what: str, tmp_path: Path) -> None:
    text, line = REFUSED[what]
    errors = [at for at, content in enumerate(rewrite(tmp_path, text).splitlines(), 1) if "GCC error" in content]
    assert errors == [line]
    assert f'"{what}' in rewrite(tmp_path, text).replace('\\"', '"')


def test_the_error_is_the_compilers_and_so_only_where_the_text_is_compiled() -> None:
    ptx = 'asm("mapa.u32 %0, %1, 0;" : "=r"(x[0]) : "r"(x[0]));'
    with pytest.raises(BuildError, match=r"\.cu:2:\d+: error: inline PTX: mapa\.u32 is not yet on the CPU"):
        RawKernel(f"__global__ void k(unsigned* x) {{\n  {ptx}\n}}", "k").compile()
    code = f"__global__ void k(unsigned* x) {{\n#ifndef TRIFOLD_CPU\n  {ptx}\n#else\n  x[0] = 7;\n#endif\n}}"
    x = np.zeros(1, dtype=np.uint32)
    RawKernel(code, "k")(1, 1, (x,))
    assert x[0] == 7


def test_a_header_of_the_programs_own_is_rewritten_too(tmp_path: Path) -> None:
    (tmp_path / "kernel.cuh").write_text("#pragma once\n__global__ void k(int* values) {}\n")
    path = tmp_path / "main.cu"
    path.write_text('#include "kernel.cuh"\nvoid f() { k<<<1, 1>>>(x); }\n')
    texts = read_program(path)
    assert [file.name for file in texts] == ["main.cu", "kernel.cuh"]
    assert '"k", "values"' in texts[path].text
