"""Inline PTX runs on the CPU as C++: it computes what CUDA's functions do, and is checked at its lines."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.host.ptx_rows import ROWS
from trifold import KernelFault
from trifold.host import RawKernel

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
    """The operands, three words each, and for each row and operands what asm and expression give."""
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
    if (kind := ROWS[number].constraints[0]) in "fd":  # every NaN is as good, and both zeros
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
    """One case of ptx_cases.cu, by 64 threads a block."""
    arrays = {
        "x": np.arange(256, dtype=np.float32),
        "counters": np.zeros(8, dtype=np.uint32),
        "sums": np.zeros(68, dtype=np.float32),
        "wrong": np.zeros(19, dtype=np.uint32),
    }
    arrays["counters"][1] = 1 << 31
    RawKernel(HERE / "ptx_cases.cu", "cases")(blocks, 64, (*arrays.values(), which))
    return arrays


def test_memory_barriers_and_lanes_are_those_of_the_dialect() -> None:
    arrays = run(0)
    assert arrays["wrong"].tolist() == [0] * 19
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
