"""mma.sync, and the instructions that move its operands, on the CPU: the products, the layouts, and the checks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cpu import matrix_forms
from tests.cpu.matrix_forms import SHAPES, WORDS, Shape
from trifold import KernelFault
from trifold.cpu import RawKernel

Matrices = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def operands(shape: Shape, seed: int) -> Matrices:
    """Small whole numbers, so that each sum is exact in each type."""
    m, n, k = shape.sizes
    random = np.random.default_rng(seed)
    least = 0 if "u8" in shape.types else -2
    a, b, c = (random.integers(least, 3, size).astype(np.float64) for size in ((m, k), (k, n), (m, n)))
    return a, b, c


def results(given: list[Matrices], *, checks: bool = True) -> list[NDArray[np.float64]]:
    """D of each shape."""
    words = [
        np.concatenate(
            [matrix_forms.words(shape, at + 1, matrices[at]) for shape, matrices in zip(SHAPES, given, strict=True)]
        )
        for at in range(3)
    ]
    made = np.zeros((len(SHAPES) * 32, WORDS), dtype=np.uint64)
    RawKernel(matrix_forms.source(), "products", checks=checks)(len(SHAPES), 32, (made, *words))
    registers = made.reshape(len(SHAPES), 32, WORDS)
    return [matrix_forms.matrix_of(shape, each) for shape, each in zip(SHAPES, registers, strict=True)]


@pytest.mark.parametrize("checks", [True, False], ids=["checked", "plain"])
def test_products_of_all_shapes(checks: bool) -> None:
    given = [operands(shape, seed) for seed, shape in enumerate(SHAPES)]
    for shape, (a, b, c), made in zip(SHAPES, given, results(given, checks=checks), strict=True):
        np.testing.assert_array_equal(made, a @ b + c, err_msg=str(shape))


def product_of(opcode: str, a: NDArray[np.float64], b: NDArray[np.float64], c: float) -> float:
    """The first element of D for this first row, column and element of the operands, all else 0."""
    given = [operands(shape, 0) for shape in SHAPES]
    at = [str(shape) for shape in SHAPES].index(opcode)
    for matrix in given[at]:
        matrix[:] = 0
    given[at][0][0, : len(a)], given[at][1][: len(b), 0], given[at][2][0, 0] = a, b, c
    return float(results(given, checks=False)[at][0, 0])


def test_an_f16_result_is_rounded_once_and_f32_sums_are_not_rounded_to_f16() -> None:
    """1 is half a unit in the last place of 2048: two of them are one unit, if both are added before rounding."""
    ones = np.ones(3)
    assert product_of("m16n8k16.row.col.f16.f16.f16.f16", ones[:2], ones[:2], 2048.0) == 2050
    assert product_of("m16n8k16.row.col.f32.f16.f16.f32", ones, ones, 2048.0) == 2051


def test_tf32_factors_have_the_upper_19_bits_of_a_float() -> None:
    just_below_2 = np.array([1 + (1 - 2**-10) + 2**-11])
    made = product_of("m16n8k8.row.col.f32.tf32.tf32.f32", just_below_2, np.ones(1), 0.0)
    assert made == 2 - 2**-10


def test_integer_sums_wrap_unless_they_saturate() -> None:
    most, ones = 2.0**31 - 1, np.ones(4)
    assert product_of("m16n8k32.row.col.satfinite.s32.u8.u8.s32", ones, ones, most) == most
    assert product_of("m16n8k32.row.col.s32.s8.u8.s32", ones, ones, most) == -(2**31) + 3


HERE = Path(__file__).parent
MOVES = HERE / "matrix_moves.cu"


def pairs(matrices: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The lanes' words: two elements of row lane / 4 of each 8×8 matrix."""
    low, high = matrices[..., ::2], matrices[..., 1::2]
    words: NDArray[np.uint32] = (low | high << 16).reshape(*matrices.shape[:-2], 32).astype(np.uint32)
    return words


def test_rows_of_matrices_come_to_the_lanes_and_go_back() -> None:
    made = np.zeros((32, 16), dtype=np.uint32)
    RawKernel(MOVES, "moves")(1, 32, (made,))
    tiles = np.arange(256, dtype=np.uint32).reshape(4, 8, 8)
    plain, turned = pairs(tiles), pairs(tiles.transpose(0, 2, 1))
    np.testing.assert_array_equal(made[:, 0], plain[0])
    np.testing.assert_array_equal(made[:, 1:3].T, plain[:2])
    np.testing.assert_array_equal(made[:, 3:7].T, plain)
    np.testing.assert_array_equal(made[:, 7:11].T, turned)
    np.testing.assert_array_equal(made[:, 11], turned[0])
    # Lane l stored row l of the matrices, transposed, to row 31 - l.
    rows = tiles.transpose(0, 2, 1).reshape(32, 8)[::-1]
    np.testing.assert_array_equal(made[:, 12:], rows[:, ::2] | rows[:, 1::2] << 16)


MISTAKES = {
    1: ("warp divergence", {"half", "__syncwarp"}, "movmatrix is an instruction of the whole warp"),
    2: ("warp divergence", {"even", "odd"}, "wait for each other in different calls"),
    3: ("warp divergence", {"exited"}, "without the rest of the warp.\n  lanes 30..31 have exited"),
    4: ("race", {"read", "write"}, "tile"),
}


@pytest.mark.parametrize("which", MISTAKES)
def test_mistakes_are_found_at_their_lines(which: int) -> None:
    kind, marks, words = MISTAKES[which]
    with pytest.raises(KernelFault) as caught:
        RawKernel(MOVES, "mistakes")(1, 32, (np.zeros(32, dtype=np.uint32), which))
    (finding,) = caught.value.findings
    source = MOVES.read_text(encoding="utf-8").splitlines()
    lines = {source[access.line - 1] for access in finding.accesses}
    assert finding.kind == kind
    assert all(any(mark in line for line in lines) for mark in marks), lines
    assert words in str(finding)


def test_a_warp_that_is_not_whole_has_no_products() -> None:
    with pytest.raises(KernelFault, match=r"lanes 16\.\.31 were not launched"):
        RawKernel(MOVES, "mistakes")(1, 16, (np.zeros(32, dtype=np.uint32), 4))
