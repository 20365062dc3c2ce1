"""nvcuda::wmma on the CPU: each shape, type and layout, and the checks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from trifold import KernelFault
from trifold.cpu import RawKernel
from trifold.errors import LaunchError

FRAGMENTS = Path(__file__).parent / "fragments.cu"
DTYPES = {
    "half": torch.float16,
    "__nv_bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
    "signed char": torch.int8,
    "unsigned char": torch.uint8,
    "int": torch.int32,
}
SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
# The shapes, and the types of factors in the fragment and in memory, of c, and of d.
FORMS = [
    *[
        (shape, *types)
        for shape in SHAPES
        for types in (("half", "half", "float", "float"), ("half", "half", "half", "half"))
    ],
    (SHAPES[0], "half", "half", "half", "float"),
    *[(shape, "__nv_bfloat16", "__nv_bfloat16", "float", "float") for shape in SHAPES],
    *[(shape, kind, kind, "int", "int") for shape in SHAPES for kind in ("signed char", "unsigned char")],
    ((16, 16, 8), "wmma::precision::tf32", "float", "float", "float"),
    ((8, 8, 4), "double", "double", "double", "double"),
]


def laid_out(matrix: torch.Tensor, *, by_rows: bool) -> torch.Tensor:
    """The matrix in its memory layout."""
    return (matrix if by_rows else matrix.t()).contiguous()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_products_of_each_shape_type_and_layout(form: tuple[tuple[int, int, int], str, str, str, str]) -> None:
    (m, n, k), tag, kind, of_c, of_d = form
    kernel = RawKernel(FRAGMENTS, f"products<{m}, {n}, {k}, {tag}, {kind}, {of_c}, {of_d}>")
    random = torch.Generator().manual_seed(m)
    least = 0 if kind == "unsigned char" else -2
    a, b, c = (torch.randint(least, 3, size, generator=random) for size in ((m, k), (k, n), (m, n)))
    for layouts in range(4):
        a_rows, b_rows = layouts < 2, layouts % 2 == 0
        d = torch.zeros((m, n) if b_rows else (n, m), dtype=DTYPES[of_d])
        kernel(
            1,
            32,
            (
                laid_out(a.to(DTYPES[kind]), by_rows=a_rows),
                laid_out(b.to(DTYPES[kind]), by_rows=b_rows),
                laid_out(c.to(DTYPES[of_c]), by_rows=b_rows),
                d,
                layouts,
            ),
        )
        assert torch.equal((d if b_rows else d.t()).long(), 2 * (a @ b) + c)


def test_sums_of_integers_saturate_where_they_are_asked_to() -> None:
    most = torch.full((16, 16), 2**31 - 5, dtype=torch.int32)
    d = torch.zeros_like(most)
    RawKernel(FRAGMENTS, "saturating")(1, 32, (torch.ones(16, 16, dtype=torch.uint8), most, d))
    assert d.unique().tolist() == [2**31 - 1]


def run(which: int) -> torch.Tensor:
    x = aligned(torch.eye(16, dtype=torch.float16))
    y = torch.zeros(256)
    RawKernel(FRAGMENTS, "mistakes")(1, 32, (x, y, which))
    return y


def aligned(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix at a multiple of 32 bytes."""
    room = torch.zeros(matrix.numel() + 16, dtype=matrix.dtype)
    first = -room.data_ptr() % 32 // matrix.element_size()
    made = room[first : first + matrix.numel()].view(matrix.shape)
    return made.copy_(matrix)


def test_a_tile_in_shared_memory() -> None:
    assert torch.equal(run(0).view(16, 16), torch.eye(16))


MISTAKES = {
    1: ("uninitialised read", {"read"}),
    2: ("warp divergence", {"product", "store"}),
    3: ("out-of-bounds", {"load"}),
}


@pytest.mark.parametrize("which", MISTAKES)
def test_mistakes_are_found_at_their_lines(which: int) -> None:
    kind, marks = MISTAKES[which]
    with pytest.raises(KernelFault) as caught:
        run(which)
    (finding,) = caught.value.findings
    source = FRAGMENTS.read_text(encoding="utf-8").splitlines()
    found = {source[access.line - 1].rpartition("// ")[2] for access in finding.accesses}
    assert (finding.kind, found) == (kind, marks), str(finding)


def test_a_matrix_begins_at_a_multiple_of_32_bytes() -> None:
    with pytest.raises(LaunchError, match="does not begin at a multiple of 32 bytes"):
        run(4)
