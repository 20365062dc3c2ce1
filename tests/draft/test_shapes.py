"""The drafts of the launch functions of shapes.py, compiled for the CPU, do what their prototypes do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.draft import shapes as prototype
from tests.draft.operators import drafted_operators


@pytest.fixture(scope="module")
def op(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of shapes.py."""
    return drafted_operators(Path(__file__).with_name("shapes.py"), tmp_path_factory.mktemp("workspace"))


def test_a_list_of_integers_is_an_argument(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(9, 8, generator=drawn)
    expected = torch.nn.functional.avg_pool2d(x[None], (2, 4))[0]
    torch.testing.assert_close(op.shapes(x, [2, 4]), expected)
    for wrong, error in (
        ([0, 4], "two positive numbers, but has 2"),
        ([2, 2, 2], "but has 3"),
        ([], "invalid index"),
    ):
        with pytest.raises(RuntimeError, match=error):
            op.shapes(x, wrong)
    with pytest.raises(RuntimeError, match="window must have 2 numbers, but their number is 1"):
        op.shapes(x, [2])


@pytest.mark.parametrize("shape", [(3, 5), (2, 5, 4, 3)])
def test_a_part_of_a_shape_follows_a_check_of_its_dimensions(
    op: Any, drawn: torch.Generator, shape: tuple[int, ...]
) -> None:
    x, scale = torch.randn(shape, generator=drawn), torch.randn(5, generator=drawn)
    torch.testing.assert_close(op.shapes_channels(x, scale), x * scale.view(-1, *(1,) * (len(shape) - 2)))
    for wrong in (x[0, 0], x.transpose(0, 1)):
        with pytest.raises(RuntimeError, match=r"a number for each channel of x, but is \(5,?\)"):
            op.shapes_channels(wrong, scale)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_a_dimension_is_an_argument(op: Any, drawn: torch.Generator, dim: int) -> None:
    x = torch.randn(3, 5, 4, generator=drawn)
    assert torch.equal(op.shapes_reversed(x, dim), x.flip(dim))
    with pytest.raises(RuntimeError, match=f"dimension {dim} of x has no elements"):
        op.shapes_reversed(x.new_empty(0, 0, 0), dim)


def test_parts_of_several_dimensions(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(2, 5, 7, generator=drawn)
    assert torch.equal(op.shapes_halves(x), (x[0, 1:, :3] + x[1, 1:, -3:])[:, None])


@pytest.mark.parametrize(
    ("how", "does"), [("double", lambda x: 2 * x), ("square", lambda x: x * x), ("negate", torch.neg)]
)
def test_a_dict_has_the_kernel_for_a_string(op: Any, drawn: torch.Generator, how: str, does: Any) -> None:
    x = torch.randn(70, generator=drawn)
    assert torch.equal(op.shapes_by_name(x, how), does(x))
    with pytest.raises(RuntimeError, match="how must be double, square or negate, but is cube"):
        op.shapes_by_name(x, "cube")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_limits_of_a_dtype_and_numbers_that_are_not_finite(op: Any, drawn: torch.Generator, dtype: torch.dtype) -> None:
    x = torch.randn(6, 5, generator=drawn).to(dtype)
    for finite, below in ((True, torch.finfo(dtype).min), (False, -math.inf)):
        expected = torch.where(x < 0.25, x, torch.tensor(below, dtype=dtype))
        assert torch.equal(op.shapes_masked(x, 0.25, finite, [2, 15]), expected.view(2, 15))
    assert op.shapes_masked(x[:0], 0.25, True, [1]).isnan().all()


def test_formats_in_a_message(op: Any) -> None:
    with pytest.raises(RuntimeError) as raised:
        op.shapes_masked(torch.ones(2), 1e39, True, [1, 2])
    with pytest.raises(RuntimeError, match="is large") as by_prototype:
        prototype.shapes_masked(torch.ones(2), 1e39, True, [1, 2])
    assert str(by_prototype.value) in str(raised.value)


def test_a_size_that_is_not_0_is_at_least_1(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(6, 5, generator=drawn)
    assert torch.equal(op.shapes_by_columns(x), x.t())
    with pytest.raises(RuntimeError, match="x has no columns"):
        op.shapes_by_columns(x[:, :0])


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_size_changes_at_a_place_that_the_call_decides(op: Any, drawn: torch.Generator, dim: int, keep: bool) -> None:
    x = torch.randn(3, 4, 5, generator=drawn)
    torch.testing.assert_close(op.shapes_sums(x, dim, keep), x.sum(dim, keepdim=keep))
    with pytest.raises(RuntimeError, match="index 3 of 3 sizes"):
        op.shapes_sums(x, 3, keep)
    with pytest.raises(RuntimeError, match=r"but has \[2, 3\]"):
        op.shapes_sums(x[0, :2, :3].double(), 0, keep)


def test_lists_of_sizes_are_made_in_steps(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(3, 4, 5, generator=drawn)
    y = op.shapes_tiled(x, [1, 2])
    assert y.shape == (1, 2, 4, 6)
    assert torch.equal(y.view(-1)[:20], 2 * x[0].reshape(-1)) and not y.view(-1)[20:].any()
    for tiles in ([-1, -2], [0, 2], [2, 2]):
        with pytest.raises(RuntimeError, match=rf"the product 2, but are \[{tiles[0]}, {tiles[1]}\]"):
            op.shapes_tiled(x, tiles)


def test_comprehensions_over_sizes_whose_number_the_call_decides(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(2, 3, 4, 1, generator=drawn)
    assert op.shapes_other(x, [2], "each").shape == (2, 1, 4, 1)
    assert op.shapes_other(x, [2], "none").shape == (2, 1, 4, 1)
    assert op.shapes_other(x, [2], "long").shape == (3, 4)
    with pytest.raises(RuntimeError, match="how is long, and sizes has no number"):
        op.shapes_other(x, [], "long")
    y = op.shapes_other(x, [2, 3, 1], "one")
    assert torch.equal(y, 2 * x.view(-1))
    with pytest.raises(RuntimeError, match=r"shapes_other: \[-1, 1\] of \[2, 3, 4\]"):
        op.shapes_other(x, [0, 2], "one")
    with pytest.raises(RuntimeError, match="how all each, long"):
        op.shapes_other(x, [2], "all")


@pytest.mark.parametrize("wide", [True, False])
def test_match_in_a_kernel(op: Any, drawn: torch.Generator, wide: bool) -> None:
    x = torch.randn(100, generator=drawn)
    for mode, right in ((0, x), (1, torch.where(x > 0, 2 * x, -x)), (2, torch.where(x > 0, 2 * x, -x)), (3, -x)):
        assert torch.equal(op.shapes_matched(x, mode, wide), right)
        assert torch.equal(prototype.shapes_matched(x, mode, wide), right)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_parts_of_a_shape_end_where_the_call_says(op: Any, drawn: torch.Generator, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=drawn)
    for dim in range(1, len(shape)):
        expected = 2 * (2 + 10 * 3 + 100 * math.prod(shape[:dim]) + 1000 * math.prod(shape[-dim:][1:]))
        result = op.shapes_parts(x, dim)
        of_z = shape[:dim] + shape[dim + 1 :]
        assert result.shape == of_z[1:] + of_z[:1]
        assert result.unique().tolist() == [expected]
    with pytest.raises(RuntimeError, match="must have 2 numbers, but their number is 1"):
        op.shapes_parts(x.reshape(-1), 1)
