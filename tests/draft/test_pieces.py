"""The drafts of the launch functions of pieces.py, compiled for the CPU, do what torch does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.draft import pieces as prototype
from tests.draft.operators import drafted_operators

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def op(quick_builds: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of pieces.py."""
    return drafted_operators(HERE / "pieces.py", tmp_path_factory.mktemp("workspace"))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_pieces_along_a_dimension_that_the_call_decides(op: Any, drawn: torch.Generator, dim: int) -> None:
    qkv = torch.randn(6, 6, 6, generator=drawn, dtype=torch.float64)
    q, k, _ = qkv.split([1, 1, 4], dim)
    first, second, _ = qkv.chunk(3, dim)
    for made, right in zip(op.pieces(qkv, [1, 1, 4], dim), (q * k, first * second), strict=True):
        assert torch.equal(made, right)
    with pytest.raises(RuntimeError, match=r"sizes \(1, 1, 5\) do not add up to a size of \(6, 6, 6\)"):
        op.pieces(qkv, [1, 1, 5], dim)
    with pytest.raises(RuntimeError, match="parts must have 3 numbers, but their number is 2"):
        op.pieces(qkv, [1, 1], dim)
    with pytest.raises(RuntimeError, match=r"pieces: chunks of .* and"):
        op.pieces(qkv.narrow(dim, 0, 5), [2, 2, 1], dim)


def test_no_elements_have_as_many_chunks(op: Any) -> None:
    made, chunks = op.pieces(torch.ones(0, 3), [0, 0, 0], 0)
    assert made.shape == chunks.shape == (0, 3)


def test_as_many_pieces_as_names(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(5, 3, 8, generator=drawn)
    assert torch.equal(op.pieces_halves(x, 2), x[0, :, :4] * x[3, :, 4:])
    assert torch.equal(prototype.pieces_halves(x, 2), x[0, :, :4] * x[3, :, 4:])
    for wrong, error in (
        ((x[..., :7], 2), r"has 3 pieces of 3, not 2"),
        ((x, 3), r"has 3 parts, not 2"),
        ((x, 6), r"a tensor of shape \(5, 3, 4\) has no 6 elements from 0 on in dimension 0"),
        ((x[0, 0], 2), r"pieces_halves: x of \(8,\) is a row, or a number"),
    ):
        with pytest.raises(RuntimeError, match=error):
            op.pieces_halves(*wrong)


@pytest.mark.parametrize("way", ["all", "shape"])
@pytest.mark.parametrize(("one", "other"), [((3, 1), (2, 1, 4)), ((5,), (5,)), ((), (2, 3)), ((2, 0), (1, 1))])
def test_tensors_are_broadcast(
    op: Any, drawn: torch.Generator, way: str, one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    x, y = torch.randn(one, generator=drawn), torch.randn(other, generator=drawn)
    assert torch.equal(op.pieces_broadcast(x, y, way), x * y)


def test_expanded_sizes_may_be_left_out(op: Any, drawn: torch.Generator) -> None:
    x, y = torch.randn(2, 1, generator=drawn), torch.randn(4, generator=drawn)
    assert torch.equal(op.pieces_broadcast(x, y, "as"), (x * y).expand(3, 2, 4))
    for wrong, error in (
        ((2, 3), r"shape \(2, 3\) is not expanded to \(3, -1, 4\)"),
        ((1, 1, 2, 1), "is not expanded"),
    ):
        with pytest.raises(RuntimeError, match=error):
            op.pieces_broadcast(torch.ones(wrong), y, "as")
    with pytest.raises(RuntimeError, match=r"shapes do not broadcast: \(3,\) has 3 where another one has 4"):
        op.pieces_broadcast(torch.ones(2, 4), torch.ones(3), "all")
