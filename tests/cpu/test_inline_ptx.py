"""Inline PTX runs on the CPU as C++: it has the results of CUDA's functions, and is checked at its lines."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.cpu import ptx_forms
from tests.cpu.ptx_rows import ROWS
from trifold import KernelFault
from trifold.build import inline_ptx, toolchain
from trifold.build.sources import INCLUDE_ROOT
from trifold.cpu import RawKernel

HERE = Path(__file__).parent
TYPES = {"h": "uint16_t", "r": "uint32_t", "l": "uint64_t", "f": "float", "d": "double"}
# Integers at the ends of their ranges, shifts around a width, and as floats: ties, infinities, NaN, subnormal numbers.
WORDS = (
    0,
    1,
    5,
    31,
    33,
    64,
    0x3F800000,
    0x3F000001,
    0xBFC00000,
    0x7F800000,
    0xFFC00000,
    0x80000000,
    0x7FFFFFFF,
    0xFFFFFFFF,
    0x00400000,
    0x40490FDB,
    0x4B7FFFFF,
    0xC7000080,
    0x123456789ABCDEF0,
    0xFFFFFFFF00000001,
    0x8000000042FE8000,
    0x7FFFFFFFCF000000,
)


def rows_source() -> str:
    """One kernel with a case for each row: block i computes row i, by asm and by its expression."""
    cases = []
    for number, row in enumerate(ROWS):
        result, given = row.constraints[0], row.constraints[1:]
        declared = "".join(
            f"{TYPES[constraint]} {name}; take(words[{at}], {name}); "
            for at, (name, constraint) in enumerate(zip("abc", given, strict=False))
        )
        inputs = ", ".join(f'"{constraint}"({name})' for name, constraint in zip("abc", given, strict=False))
        cases.append(
            f'    case {number}: {{ {declared}{TYPES[result]} got; asm("{row.text}" : "={result}"(got) : {inputs});\n'
            f"      results[0] = word_of(got); results[1] = word_of({TYPES[result]}({row.expression})); }} break;"
        )
    functions = (HERE / "ptx_functions.cuh").read_text(encoding="utf-8")
    return (
        f"{functions}\n__global__ void rows(const uint64_t* given, uint64_t* made) {{\n"
        "  const uint64_t* words = given + 3 * threadIdx.x;\n"
        "  uint64_t* results = made + 2 * (blockIdx.x * blockDim.x + threadIdx.x);\n"
        "  switch (blockIdx.x) {\n" + "\n".join(cases) + "\n  }\n}\n"
    )


@pytest.fixture(scope="module")
def results() -> tuple[np.ndarray, np.ndarray]:
    """The operands, three words each, and for each row and operands the results of asm and of the expression."""
    third = itertools.cycle(WORDS)
    given = np.array([(a, b, next(third)) for a in WORDS for b in (*WORDS, WORDS[5])], dtype=np.uint64)
    made = np.zeros((len(ROWS), len(given), 2), dtype=np.uint64)
    RawKernel(rows_source(), "rows", checks=False)(len(ROWS), len(given), (given, made))
    return given, made


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[str(row) for row in ROWS])
def test_an_instruction_computes_what_cudas_functions_do(number: int, results: tuple[np.ndarray, np.ndarray]) -> None:
    given, made = results[0], results[1][number]
    got, expected = made[:, 0], made[:, 1]
    same = got == expected
    if (kind := ROWS[number].constraints[0]) in "fd":  # all NaNs are equal, and both zeros
        reals = made.view(np.float64) if kind == "d" else made.astype(np.uint32).view(np.float32)
        same |= (reals[:, 0] == reals[:, 1]) | np.isnan(reals).all(axis=1)
    wrong = [
        ([hex(word) for word in operands], hex(one), hex(other))
        for operands, one, other in zip(given[~same], got[~same], expected[~same], strict=True)
    ]
    assert wrong == []
    assert len(np.unique(got)) > 1


CASES = (HERE / "ptx_cases.cu").read_text(encoding="utf-8")


def run(which: int, blocks: int = 1) -> dict[str, np.ndarray]:
    """One case of ptx_cases.cu, with 64 threads per block."""
    arrays = {
        "x": np.arange(256, dtype=np.float32),
        "counters": np.zeros(8, dtype=np.uint32),
        "sums": np.zeros(68, dtype=np.float32),
        "wrong": np.zeros(20, dtype=np.uint32),
    }
    arrays["counters"][1] = 1 << 31
    RawKernel(HERE / "ptx_cases.cu", "cases")(blocks, 64, (*arrays.values(), which))
    return arrays


def test_memory_barriers_and_lanes_are_those_of_the_dialect() -> None:
    arrays = run(0)
    assert arrays["wrong"].tolist() == [0] * 20
    assert arrays["counters"].tolist() == [64, 0, 0x54005800, 64, 10, 0, 0, 0]  # 64 and 128 as halves
    assert arrays["sums"][0] == 32
    assert sorted(arrays["sums"][2:66]) == list(range(64))
    assert arrays["sums"][66:].tolist() == [64, 64]


@pytest.mark.parametrize("which", [1, 5])
def test_right_kernels_have_no_finding(which: int) -> None:
    run(which, blocks=2 if which == 1 else 1)


WRONG = {
    2: ("race", "x[1] = x[0];", 2),
    3: ("race", 'if (which == 3) asm volatile("st.release.cta.global.u32 [%0], 1;"', 2),  # for its block only
    4: ("race", 'asm volatile("st.shared.f32 [%0], %1;"', 1),
    6: ("out-of-bounds", '"ld.global.f32 %0, [%1 + 1024];"', 1),
    7: ("uninitialised read", 'asm volatile("ld.shared.f32 %0, [%1];"', 1),
    8: ("misaligned", 'asm volatile("ld.global.v4.f32 {%0, _, _, _}', 1),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_mistake_is_found_at_the_line_of_its_instruction(which: int) -> None:
    kind, line, blocks = WRONG[which]
    with pytest.raises(KernelFault) as caught:
        run(which, blocks)
    (finding,) = caught.value.findings
    lines = {CASES.splitlines()[access.line - 1].strip() for access in finding.accesses}
    assert (finding.kind, any(each.startswith(line) for each in lines)) == (kind, True), (str(finding), lines)


def compiled(command: list[str | Path]) -> str:
    """A compiler's errors; "" if there are none."""
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode != 0 else ""


@pytest.mark.parametrize("standard", [("-std=gnu++17", "-fconcepts"), ("-std=c++20",)], ids=["C++17", "C++20"])
def test_each_form_of_the_table_has_a_function(standard: tuple[str, ...], tmp_path: Path) -> None:
    text = inline_ptx.rewrite(ptx_forms.source())
    assert "GCC error" not in text
    path = tmp_path / "forms.cpp"
    path.write_text(f"#include <trifold/cuda.cuh>\n#include <{inline_ptx.HEADER}>\n{text}", encoding="utf-8")
    flags = [*standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{INCLUDE_ROOT}"]
    assert compiled([toolchain.find_gxx(), *flags, path]) == ""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
@pytest.mark.parametrize("which", ["rows", "cases", "forms"])
def test_nvcc_assembles_the_same_text(which: str, tmp_path: Path) -> None:
    sources = {"rows": rows_source(), "cases": CASES, "forms": ptx_forms.source()}
    path = tmp_path / f"{which}.cu"
    path.write_text(sources[which], encoding="utf-8")
    target = "-gencode=arch=compute_90a,code=sm_90a"
    assert compiled(["nvcc", "-std=c++20", target, "-c", path, "-o", path.with_suffix(".o")]) == ""


def body(statement: str, before: str = "__device__ void f(unsigned a, float x)") -> str:
    return f"\n{before} {{\n  {statement}\n}}\n"


REFUSED = {
    "wgmma.fence.sync.aligned is not yet on the CPU: write it": 'asm("wgmma.fence.sync.aligned;");',
    "mapa.shared::cluster.u32 has 2 operands": 'asm("mapa.shared::cluster.u32 %0, %1;" : "=r"(a) : "r"(a));',
    "mbarrier.arrive.shared::cluster.b64 returns nothing": (
        'asm("mbarrier.arrive.shared::cluster.b64 %0, [%1];" : "=l"(s) : "r"(a));'
    ),
    "frob.b32 is not a PTX instruction": 'asm("frob.b32 %0;" : "=r"(a));',
    "add.u128 is not yet on the CPU, which has add.INT": 'asm("add.u128 %0, %0, 1;" : "+r"(a));',
    "add.u32 has 2 operands and not 3": 'asm("add.u32 %0, %0;" : "+r"(a));',
    "%3 is not a number, an operand or a supported register": 'asm("add.u32 %0, %0, %3;" : "+r"(a));',
    "t is not a number, an operand or a supported register": 'asm("{ .reg .u32 t; } mov.u32 %0, t;" : "=r"(a));',
    "%pm0 is not yet on the CPU: write it": 'asm("mov.u32 %0, %%pm0;" : "=r"(a));',
    "there is no ; after mov.u32 %0, 1": 'asm("mov.u32 %0, 1" : "=r"(a));',
    "a { is not closed": 'asm("{ mov.u32 %0, 1;" : "=r"(a));',
    "a } closes nothing": 'asm("mov.u32 %0, 1; }" : "=r"(a));',
    "bra nowhere names no label": 'asm("bra nowhere;");',
    "{%0, %0} is not a list of 4 registers": 'asm("ld.v4.u32 {%0, %0}, [%1];" : "=r"(a) : "l"(p));',
    "%1 is not an address": 'asm("ld.u32 %0, %1;" : "=r"(a) : "l"(p));',
    "addc.u32 has no carry": 'asm("addc.u32 %0, %0, 0;" : "+r"(a));',
    "bar.sync has 0 operands and not 1": 'asm("bar.sync;");',
    "exit of a function that is not a kernel": 'asm("exit;");',
    ".shared .b32 t[4] is not yet on the CPU": 'asm(".shared .b32 t[4];");',
    "an operand with the constraint C is not yet": 'asm("add%1 %0, %0, 1;" : "+r"(a) : "C"(text));',
    "the text of this asm is not a string literal": "asm(TEXT);",
    "the text of this asm is not a string literal, so": 'asm("ld." SPACE ".u32 %0, [%1];" : "=r"(a) : "l"(p));',
    "asm goto is not there": 'asm goto("" : : : : label);',
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_translated_is_an_error_of_the_compiler_at_its_line(what: str) -> None:
    text = body(REFUSED[what])
    made = inline_ptx.rewrite(text)
    errors = [line for line in made.splitlines() if "GCC error" in line]
    assert [made.splitlines().index(line) for line in errors] == [2]
    assert f"inline PTX: {what}" in errors[0]


def test_the_error_is_on_the_line_of_the_instruction_and_no_line_moves() -> None:
    text = body('asm volatile("mov.u32 %0, 1;"  // right\n    "mapa.u32 %0, %0, 1;"\n    : "=r"(a)\n  );\n  last();')
    made = inline_ptx.rewrite(text).splitlines()
    assert [number for number, line in enumerate(made) if "GCC error" in line] == [3]
    assert made.index("  last();") == text.splitlines().index("  last();")


def test_a_macro_is_translated_within_its_lines() -> None:
    text = '#define READ(x, p) \\\n  asm volatile("mov.u32 %0, %1;" \\\n : "=r"(x) \\\n : "r"(p))\nint last;\n'
    made = inline_ptx.rewrite(text)
    assert "asm" not in made.replace("ptx", "")
    assert "= (x);" in made
    assert [line.endswith("\\") for line in made.splitlines()] == [True, True, True, False, False]
    made = inline_ptx.rewrite('#define ANY(type) asm("mov." #type " %0, 1;" : "=r"(x))\n')
    assert made.startswith("#define ANY(type) _Pragma(") and made.count("\n") == 1


def test_hints_for_the_compiler_only_bar_it_from_moving_accesses() -> None:
    assert inline_ptx.rewrite(body('asm volatile("" : "+f"(x), "+r"(a));')) == body("({ });")
    assert inline_ptx.rewrite(body('asm("" ::: "memory");')) == body("({ __atomic_signal_fence(__ATOMIC_SEQ_CST); });")


@pytest.mark.parametrize(
    "text",
    [
        body('asm volatile("pause");', before="void f()"),
        body('__shared__ float s[2] asm("symbol");'),
        '// __device__ void f() { asm("exit;"); }\nconst char* s = "asm(";\n',
        body('asm volatile("rdtsc" : "=a"(a));', before="__device__ void g() { if (true) { h(); } }\nvoid f()"),
        body('asm volatile("mov %1, %0; rep; nop" : "=r"(a) : "r"(b));', before="void f()"),
        body('asm volatile("" : "+r,m"(x) : : "memory");', before="void f()"),
        '#define PAUSE asm volatile("pause;")\n',
    ],
)
def test_asm_of_the_host_and_symbols_stay(text: str) -> None:
    assert inline_ptx.rewrite(text) == text


@pytest.mark.parametrize(
    "statement",
    [
        'asm("{ .reg .pred p; }");',
        'asm("@p bra.uni there;");',
        'asm("mapa.u32 %0, %0, 1;" : "+r"(a));',
        'asm volatile("" : "+f"(x));',
        'asm("\\n  again: exit;");',
    ],
)
def test_ptx_of_a_function_whose_head_is_a_macro_is_known_by_its_opcodes(statement: str) -> None:
    text = body(statement, before="DEVICE_INLINE void f(float x)")
    assert "asm" not in inline_ptx.rewrite(text)


@pytest.mark.parametrize(
    "before",
    [
        "struct S { int a; __device__ S() : a{1}",
        "void host() { auto f = [=] __device__ (int i) mutable",
        "namespace n { template <class T> __host__ __device__ inline auto f(T x) -> T { for (int i = 0; i < 2; ++i)",
        "__global__ void __launch_bounds__(32) f() noexcept",
    ],
)
def test_functions_of_the_device_are_known_by_their_heads(before: str) -> None:
    assert inline_ptx.needs_header(inline_ptx.rewrite(body('asm("trap;");', before)))
