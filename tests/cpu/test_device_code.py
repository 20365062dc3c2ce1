"""``__CUDA_ARCH__`` is defined only in device code; code that would be ambiguous is refused at its line."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from trifold import OutOfBounds
from trifold.build import device_code, sources, toolchain
from trifold.cpu import RawKernel
from trifold.errors import BuildError
from trifold.sanitize.program import sanitize

PROGRAM = Path(__file__).with_name("programs") / "architecture.cu"

# CUDA's qualifiers for g++, and macros that cases use.
_PRELUDE = """\
#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define HD __host__ __device__
#define AT_LEAST(n) (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= (n))
namespace trifold::cpu {
bool in_kernel();
template <int = 0> constexpr bool in_device_code() { return in_kernel(); }
}
"""

# Each compiles for 9.0, and its assertions hold.
RIGHT = {
    "a kernel, and host code": """
__global__ void k() { static_assert(__CUDA_ARCH__ == 900); }
void f() {
#if __CUDA_ARCH__ >= 700
  static_assert(false);
#endif
}""",
    "a condition in a macro": """
__device__ void f() {
#if !AT_LEAST(900) || AT_LEAST(901)
  static_assert(false);
#endif
}""",
    "members, and constructors with braces": """
struct B {};
class A : public B {
 public:
  enum class E { x, y };
  template <int n = (3 > 2)> __device__ int f() const noexcept { static_assert(__CUDA_ARCH__ == 900); return n; }
  HD A(int x) : a{x}, b(x) {
#ifdef __CUDA_ARCH__
    a = __CUDA_ARCH__;
#endif
  }
  void g() {
#ifdef __CUDA_ARCH__
    static_assert(false);
#endif
  }
  int a, b = {3};
};""",
    "a condition in a head": """
template <class T>
__global__ void
#if __CUDA_ARCH__ >= 900
__launch_bounds__(64)
#else
does_not_compile
#endif
k(T* x) {}
__global__ void after();""",
    "a macro that has two texts": """
#if __CUDA_ARCH__ >= 700
#define TILE 32
#elif defined(__CUDA_ARCH__)
#define TILE 16
#else
#define TILE 8
#endif
__device__ void f() { static_assert(TILE == 32); }
void g() { static_assert(TILE == 8); }
__device__ void h() { static_assert(TILE == 32); }
#undef TILE
#define TILE 1
void i() { static_assert(TILE == 1); }""",
    "a macro that only the host has": """
#ifndef __CUDA_ARCH__
#define ON_HOST
#endif
__device__ void f() {
#ifdef ON_HOST
  static_assert(false);
#endif
}
#ifdef ON_HOST
int of_the_host;
#endif
int* p = &of_the_host;""",
    "a macro under a condition in the condition": """
#ifdef __CUDA_ARCH__
#ifdef NOT_DEFINED
#define TILE 1
#else
#define TILE 2
#endif
#endif
__device__ void f() { static_assert(TILE == 2); }""",
    "device functions and host functions enclosed in one condition": """
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ int one() { return __CUDA_ARCH__; }
struct Both { int x = 3; };
int two() { return Both().x; }
#else
__device__ void three() { does_not_compile; }
#endif
__device__ int four() { return one() + Both().x; }
int five() { return two(); }""",
    "functions of the device alone, and of the host alone": """
#if __CUDA_ARCH__ >= 900
__device__ int sum(int x) { static_assert(__CUDA_ARCH__ == 900); return x; }
__constant__ int table[2] = {1, 2};
#else
__device__ int sum(int x) { does_not_compile; }
void host() {
#ifdef __CUDA_ARCH__
  does_not_compile;
#endif
}
#endif
__device__ int f() { return sum(table[0]); }
void g() { host(); }""",
    "an #else in a condition without the macro": """
#ifdef OTHER
__device__ void f(int x) {
#else
__device__ void f(long x) {
#endif
  x++;
}
__device__ void g() { static_assert(__CUDA_ARCH__ == 900); }""",
    "lambdas of the device in host code": """
template <class F> void each(F f) { f(0); }
void g() {
  each([=] __device__(int i) { static_assert(__CUDA_ARCH__ == 900); });
  each([=] HD(int i) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    static_assert(false);
#endif
  });
#ifdef __CUDA_ARCH__
  static_assert(false);
#endif
}""",
    "comments, strings and numbers": """
// "__CUDA_ARCH__ {
const char* s = "\\"{ __CUDA_ARCH__"; /* { */ const char c = '{'; int n = 1'000'000;
const char* raw = R"x({ "__CUDA_ARCH__" )x";
__device__ void f() { static_assert(__CUDA_ARCH__ == 900); }""",
    "macros without a semicolon": """
#define BEGIN_NAMESPACE namespace n {
#define END_NAMESPACE }
#define DECLARE(name) void name();
BEGIN_NAMESPACE
DECLARE(f)
#ifdef __CUDA_ARCH__
__device__ int g() { return __CUDA_ARCH__; }
#endif
END_NAMESPACE
#define OTHER
__device__ int h() { return n::g(); }""",
    "a constexpr function": """
constexpr int f(int x) {
#ifdef __CUDA_ARCH__
  static_assert(__CUDA_ARCH__ == 900);
  return __CUDA_ARCH__;
#else
  return x;
#endif
}
constexpr int g(int x) { return x; }
static_assert(g(1) == 1);
int h() { return f(1); }""",
    "specifiers under a condition": """
struct S {
  #if __CUDA_ARCH__ >= 900
  __device__
  #else
  HD inline
  #endif
  static int f(int x) {
#ifdef __CUDA_ARCH__
    return __CUDA_ARCH__;
#endif
    return x;
  }
};
#ifdef OTHER
does_not_compile
#endif
__device__ int g() { return __CUDA_ARCH__; }""",
    "specifiers that are macros": """
#ifdef __CUDA_ARCH__
#define INLINE __host__ __device__ inline
#else
#define INLINE inline
#endif
INLINE int f() {
#ifdef __CUDA_ARCH__
  return __CUDA_ARCH__;
#endif
  return 0;
}""",
}

# The line of the error, and its message.
REFUSED = {
    "a constant of both": ("\nconstexpr int threads = AT_LEAST(700) ? 1 : 2;", 2, "one value for the host"),
    "a macro of two texts in a constant": (
        "#if __CUDA_ARCH__ >= 700\n#define TILE 2\n#else\n#define TILE 3\n#endif\n\nint tile[TILE];",
        7,
        "one value for the host and another for the device",
    ),
    "one function, of the host and of the device": (
        "#ifdef __CUDA_ARCH__\n__device__ int f() { return 1; }\n#else\nint f() { return 2; }\n#endif",
        1,
        "f is declared twice",
    ),
    "one type": (
        "#ifndef __CUDA_ARCH__\nstruct T { int x; };\n#else\nstruct T { long x; };\n#endif",
        3,
        "T is declared",
    ),
    "the signature of a function of both": (
        "#ifdef __CUDA_ARCH__\n#define T int\n#else\n#define T long\n#endif\nHD T f() {\n  return 0;\n}",
        6,
        "one value for the host",
    ),
    "a constant by a function of both": (
        "HD constexpr int f() {\n#ifdef __CUDA_ARCH__\n  return 1;\n#endif\n  return 2;\n}\nconstexpr int x = f();",
        1,
        "in_device_code() [with int <anonymous> = 0]' called in a constant expression",
    ),
    "a type under a condition, of a function of both": (
        "#if __CUDA_ARCH__ >= 900\nHD int\n#else\nHD long\n#endif\nf() {\n  return 0;\n}",
        1,
        "one value for the host",
    ),
    "half a function": (
        "#if __CUDA_ARCH__ >= 700\n__device__ void f(int x) {\n#else\n__device__ void f(long x) {\n#endif\n}",
        1,
        "a declaration begins in this #if",
    ),
    "half a function of device code": (
        "#ifdef OTHER\n__device__ int f(int x) {\n#else\n__device__ int f(long x) {\n#endif\n"
        "  return __CUDA_ARCH__;\n}",
        2,
        "this function begins in an #if",
    ),
    "a function that a macro makes": (
        "#define KERNEL(name) __global__ void name() { if (__CUDA_ARCH__ > 700) return; }\n\nKERNEL(k);",
        3,
        "use it in functions alone",
    ),
    "an unmatched brace": (
        "#define CLOSE }\nvoid f() { CLOSE\n\n__device__ int g() { return __CUDA_ARCH__; }",
        4,
        "brackets",
    ),
    "an #error for the device": ("#if AT_LEAST(900)\n#error too new\n#endif", 2, "too new"),
    "a static assertion in a kernel": (
        "__global__ void k() {\n  static_assert(__CUDA_ARCH__ < 900);\n}",
        2,
        "assertion",
    ),
}


def errors(text: str, folder: Path) -> list[tuple[int, str]]:
    """The line and the text of each error."""
    folder.mkdir(exist_ok=True)
    made = device_code.rewrite({"prelude": _PRELUDE, "case": text}, lambda name: f'"{name}.cu"', "9.0")
    for name, header in made.headers.items():
        (folder / name).write_text(header)
    path = folder / "case.cpp"
    path.write_text(f'{made.texts["prelude"]}#line 1 "case.cu"\n{made.texts["case"]}')
    command = [str(toolchain.find_gxx()), "-std=gnu++17", "-fsyntax-only", f"-I{folder}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return [
        (int(line), said) for line, said in re.findall(r"^case\.cu:(\d+):.*error: (.*)$", done.stderr, re.MULTILINE)
    ]


@pytest.mark.parametrize("what", RIGHT)
def test_device_code_has_the_macro_and_host_code_has_not(what: str, tmp_path: Path) -> None:
    assert errors(RIGHT[what], tmp_path) == []


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_mean_two_things_is_refused_at_its_line(what: str, tmp_path: Path) -> None:
    text, line, says = REFUSED[what]
    found = errors(text, tmp_path)
    assert found
    assert found[0][0] == line
    assert says in found[0][1]


@pytest.mark.parametrize("condition", ["__CUDA_ARCH__ < 700", "defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800"])
def test_lines_are_counted_right_after_branches_that_neither_side_takes(condition: str, tmp_path: Path) -> None:
    branch = f"#if {condition}\n__device__ int f() {{ return 1; }}\n"
    text = f"{branch}#elif {condition}\n{branch}#endif\nint x;\n#endif\nint y = no_such_name;\n"
    ((line, _),) = errors(text, tmp_path)
    assert line == text.count("\n")


def test_a_program_is_compiled_for_the_named_gpu_and_its_dynamic_shared_memory_links(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Both builds: the second for another GPU, and another standard."""
    for capability, options, device, standard in (
        (None, [], "900 33 901 32 1", 2017),
        ("7.5", ["--std=c++20"], "750 33 751 32 0", 2020),
    ):
        assert sanitize(PROGRAM, options=options, compute_capability=capability).entries == []
        printed = f"device: {device} 1 6\nhost: 10 1 8, C++ {standard}\n"
        assert capfd.readouterr().out == printed


def test_a_kernel_of_its_own_has_the_architecture_and_a_mistake_in_it_is_found_at_its_line() -> None:
    code = "__global__ void k(int* y) {\n#if __CUDA_ARCH__ >= 700\n  y[threadIdx.x] = __CUDA_ARCH__;\n#endif\n}"
    y = np.zeros(4, dtype=np.int32)
    kernel = RawKernel(code, "k", compute_capability="8.6")
    kernel(1, 4, (y,))
    assert y.tolist() == [860] * 4
    RawKernel(code, "k", ["-arch=sm_120a"], compute_capability="8.6")(1, 3, (y,))
    assert y.tolist() == [1200, 1200, 1200, 860]
    with pytest.raises(OutOfBounds, match=r"y\[4\] in kernel k.*\.cu:3"):
        kernel(1, 5, (y,))


def test_a_port_has_the_architecture_in_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binding, parts = tmp_path / "op.cu", tmp_path / "parts" / "more.cuh"
    parts.parent.mkdir()
    binding.write_text('#include "parts/more.cuh"\n__device__ int f() { return part(); }\n')
    parts.write_text("#pragma once\n__device__ inline int part() {\n  return __CUDA_ARCH__;\n}\n")
    folder = tmp_path / "build"
    folder.mkdir()
    text = sources.for_gxx(binding, folder, "8.9")
    assert sources.capability_for(binding, "8.9") == "8.9"
    (folder / "op.cpp").write_text(f"#define __device__\n{text}")
    command = [str(toolchain.find_gxx()), "-E", "-P", f"-I{folder}", f"-I{tmp_path}", str(folder / "op.cpp")]
    assert "return 890;" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    parts.write_text("#pragma once\n__device__ inline int part() {\n  return 1;\n}\n")
    assert sources.capability_for(binding, "8.9") == ""


def test_an_unknown_standard_is_refused_and_older_ones_are_taken() -> None:
    with pytest.raises(BuildError, match=r"-std: 'c\+\+98' is not a C\+\+ standard of nvcc\n  give one of c\+\+03"):
        RawKernel("__global__ void k(int* y) {}", "k", ["-std=c++98"]).compile()
    code = "__global__ void k(long* y) { y[0] = __cplusplus; }"
    y = np.zeros(1, dtype=np.int64)
    RawKernel(code, "k", ["--std", "c++14"])(1, 1, (y,))
    assert y[0] == 201703
