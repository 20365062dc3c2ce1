"""Drafts of launch functions in the styles of many: compiled for the CPU, with the wiring, against torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.draft.operators import drafted_operators

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def op(quick_builds: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of styles.py."""
    return drafted_operators(HERE / "styles.py", tmp_path_factory.mktemp("workspace"))


@pytest.mark.parametrize("shape", [(3, 5), (40, 9), (0,)])
def test_settings_are_chosen_by_a_size(op: Any, drawn: torch.Generator, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=drawn).mT if len(shape) == 2 else torch.randn(shape, generator=drawn)
    assert torch.equal(op.styles(x), 2 * x)


def test_all_strides_at_once(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(2, 3, 5, generator=drawn)
    assert torch.equal(op.styles_strides(x), x[0])


@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (4, 1)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_dimension_of_one_element_is_left_out(
    op: Any, drawn: torch.Generator, shape: tuple[int, ...], dim: int
) -> None:
    x = torch.randn(shape, generator=drawn)
    assert torch.equal(op.styles_squeezed(x, dim), (2 * x).squeeze(dim))


@pytest.mark.parametrize("factors", [[], [2.0], [0.5, 3.0, 4.0]])
def test_lists_of_floats(op: Any, drawn: torch.Generator, factors: list[float]) -> None:
    x = torch.randn(6, 4, generator=drawn)
    factor = 1.5 + 2.5
    if factors:
        factor = factor * (factors[-1] + len(factors)) + sum(factors)
    got = op.styles_floats(x, torch.zeros(3, 8), [1.5, 2.5], factors)
    torch.testing.assert_close(got, (factor * x).view(3, 8))


def test_a_list_of_another_length_is_refused(op: Any) -> None:
    x = torch.ones(4)
    with pytest.raises(RuntimeError, match="pair must have 2 numbers, but their number is 3"):
        op.styles_floats(x, x, [1.0, 2.0, 3.0], [])
    with pytest.raises(RuntimeError):
        op.styles_floats(x, torch.ones(5), [1.0, 2.0], [])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_an_empty_tensor_stands_for_one_that_is_not_given(
    op: Any, drawn: torch.Generator, dtype: torch.dtype, index: torch.dtype
) -> None:
    x = torch.randn(6, 5, generator=drawn, dtype=dtype)
    rows, weights = torch.tensor([4, 0, 4], dtype=index), torch.randn(3, generator=drawn, dtype=dtype)
    assert torch.equal(op.styles_gathered(x, rows, None), x[rows])
    assert torch.equal(op.styles_gathered(x, rows, weights), x[rows] * weights[:, None])
    with pytest.raises(RuntimeError, match="weights must be like rows"):
        op.styles_gathered(x, rows, weights[:2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_least_the_largest_and_the_sum_of_lists(op: Any, drawn: torch.Generator, dtype: torch.dtype) -> None:
    a, b = (torch.randn(3, 7, generator=drawn, dtype=dtype) for _ in range(2))
    factor = 2 + 10 * 9 + 100 * 15 + 1000 * 2 + 4.0 * 2.5 + 7
    torch.testing.assert_close(op.styles_alike(a, b, [4, 2, 9], [1.5, 2.5]), factor * b)
    with pytest.raises(RuntimeError, match="min of no numbers"):
        op.styles_alike(a, b, [], [1.5])


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_dimension_that_the_call_decides_is_moved(op: Any, drawn: torch.Generator, dim: int) -> None:
    x = torch.randn(3, 4, 5, generator=drawn, dtype=torch.float64)
    y, kept = op.styles_moved(x, dim)
    torch.testing.assert_close(y, x.cumsum(dim))
    assert kept.dtype == torch.bool
    assert torch.equal(kept, (y > 0).movedim(dim, -1))
    with pytest.raises(RuntimeError, match="movedim: 3 or -1 is no dimension of a tensor of shape"):
        op.styles_moved(x, 3)


def test_a_result_of_another_dtype_has_the_layout_of_the_argument(op: Any) -> None:
    for x in (torch.ones(2, 3, 4), torch.ones(2, 3, 4).permute(2, 0, 1), torch.ones(6, 4)[::2].t()):
        made, right = op.styles_layout(x), torch.zeros_like(x, dtype=torch.int32)
        assert torch.equal(made, right)
        assert made.stride() == right.stride()


@pytest.mark.parametrize("count", [0, 1, 2, 77])
def test_names_are_assigned_in_conditions(op: Any, drawn: torch.Generator, count: int) -> None:
    x = torch.randn(count, generator=drawn, dtype=torch.float64)
    torch.testing.assert_close(op.styles_named(x), x.sum().view(1))


@pytest.mark.parametrize("index", [torch.int64, torch.int32])
def test_names_of_types_and_namespaces(op: Any, drawn: torch.Generator, index: torch.dtype) -> None:
    x = torch.randn(3, 7, generator=drawn)
    chosen = torch.tensor([6, 0, 2], dtype=index)
    torch.testing.assert_close(op.styles_capitals(x, chosen, 2), 2 * x[:, chosen.long()].mT)
    assert torch.equal(op.styles_constant(x, 3.0), 3 * x)


def test_a_part_of_a_tensor_is_expanded(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(12, generator=drawn)[5:9]
    assert torch.equal(op.styles_expanded(x, 3), x.expand(3, 4))


@pytest.mark.parametrize("shape", [(3, 7), (4, 5), (0, 3)])
@pytest.mark.parametrize(
    ("dtype", "rounds", "parts"), [(torch.float16, 1, 2), (torch.float32, 2, 1), (torch.float64, 3, 3)]
)
def test_entries_of_a_dtype_and_sizes_of_a_shape(
    op: Any, drawn: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, rounds: int, parts: int
) -> None:
    x = torch.randn(shape, generator=drawn).to(dtype)
    factor = rounds + (0 if 7 in shape else parts)
    torch.testing.assert_close(op.styles_tables(x), factor * x)


def test_messages_by_format(op: Any) -> None:
    with pytest.raises(RuntimeError, match=r"x must be floating, not torch.int32"):
        op.styles_tables(torch.ones(2, 2, dtype=torch.int32))
    with pytest.raises(RuntimeError, match=r"x of 1 dimensions, 1.0, (torch.Size\()?\[?\(?3"):
        op.styles_tables(torch.ones(3))
