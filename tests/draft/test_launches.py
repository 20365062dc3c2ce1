"""The drafts of launch functions, compiled for the CPU, compute and refuse what their prototypes do."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.draft import launches as prototype
from tests.draft.operators import drafted_operators

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def op(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of launches.py."""
    return drafted_operators(HERE / "launches.py", tmp_path_factory.mktemp("workspace"))


def test_a_grid_of_more_blocks_than_a_launch_can_have_is_refused(op: Any) -> None:
    """Its lower 32 bits would be a grid, too."""
    x = torch.ones(1)
    assert op.launches_counted(x, 3).tolist() == [3]
    assert op.launches_counted(x, 0).tolist() == [0]
    with pytest.raises(RuntimeError, match="a launch of 4294967299 × 1 × 1 blocks or threads; each may be at most"):
        op.launches_counted(x, 2**32 + 3)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_loop_of_launches(op: Any, drawn: torch.Generator, stride: int) -> None:
    u = torch.randn(300, generator=drawn, dtype=torch.float64)[::stride]
    expected = u.clone()
    for _ in range(5):
        inner = expected[1:-1] + 0.1 * (expected[2:] - 2 * expected[1:-1] + expected[:-2])
        expected = torch.cat((expected[:1], inner, expected[-1:]))
    torch.testing.assert_close(op.launches(u, 0.1, 5), expected)
    torch.testing.assert_close(op.launches(u, 0.1, 0), u)


def test_loops_in_a_loop(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(256, generator=drawn)
    torch.testing.assert_close(op.launches_sorted(x), x.sort().values)
    with pytest.raises(RuntimeError, match="must be a power of 2, but is 6"):
        op.launches_sorted(x[:6])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_dtype_is_an_argument(op: Any, drawn: torch.Generator, dtype: torch.dtype) -> None:
    x = torch.randn(7, 30, generator=drawn).half().t()
    torch.testing.assert_close(op.launches_sums(x, dtype), x.to(dtype).sum(1))
    with pytest.raises(RuntimeError, match=r"dtype must be float32 or float64, but is torch\.int64"):
        op.launches_sums(x, torch.int64)


def test_what_a_message_says_is_computed_where_it_is_raised(op: Any) -> None:
    """A matrix, which is right, has no third size."""
    assert op.launches_sums(torch.ones(2, 3), torch.float32).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="but its third size is 4"):
        op.launches_sums(torch.ones(2, 3, 4), torch.float32)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("has_bias", [True, False])
def test_dtypes_of_indices(op: Any, drawn: torch.Generator, dtype: torch.dtype, has_bias: bool) -> None:
    table = torch.randn(9, 5, generator=drawn)
    index = torch.randint(0, 9, (20,), generator=drawn)
    bias = torch.randn(5, generator=drawn) if has_bias else None
    expected = table[index] + (bias if bias is not None else 0)
    torch.testing.assert_close(op.launches_gathered(table, index.to(dtype), bias), expected)
    with pytest.raises(RuntimeError, match="bias must be a row like those of table"):
        op.launches_gathered(table, index, torch.ones(5, dtype=torch.float64))


def test_a_string_chooses(op: Any, drawn: torch.Generator) -> None:
    x = torch.randn(64, generator=drawn)
    torch.testing.assert_close(op.launches_pooled(x, 4, "max"), x.view(16, 4).amax(1))
    torch.testing.assert_close(op.launches_pooled(x, 4, "mean"), x.view(16, 4).mean(1))
    with pytest.raises(RuntimeError, match="mode must be 'max' or 'mean', but is 'min'"):
        op.launches_pooled(x, 4, "min")
    with pytest.raises(RuntimeError, match=r"x of shape \(8, 8\) has no whole windows of 4"):
        op.launches_pooled(x.view(8, 8), 4, "max")


@pytest.mark.parametrize("training", [True, False])
def test_a_condition_replaces_a_number(op: Any, drawn: torch.Generator, training: bool) -> None:
    x = torch.randn(40, 3, generator=drawn).t()
    out, kept = op.launches_scaled(x, 2.5, training)
    torch.testing.assert_close(kept, x > 0)
    torch.testing.assert_close(out, torch.where(kept, x * (2.5 if training else 1.0), torch.zeros(())))
    assert out.stride() == kept.stride() == x.stride()
    wide = torch.randn(80, 3, generator=drawn).t()  # of which the branch takes a copy
    out, _ = op.launches_scaled(wide, 2.5, training)
    assert out.stride() == (wide.contiguous() if training else wide).stride()


@pytest.mark.parametrize("one", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("other", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_of_two_dtypes(op: Any, drawn: torch.Generator, one: torch.dtype, other: torch.dtype) -> None:
    parameter, gradient = (torch.randn(8, generator=drawn, dtype=torch.float64).to(each) for each in (one, other))
    expected = (parameter.double() - 0.5 * gradient.double()).to(one)
    op.launches_step(parameter, gradient, 0.5)
    torch.testing.assert_close(parameter, expected)


def test_a_check_of_each_tensor_in_a_loop(op: Any) -> None:
    parameter = torch.ones(8)
    with pytest.raises(RuntimeError, match="gradient must be contiguous; pass gradient"):
        op.launches_step(parameter, torch.ones(16)[::2], 0.5)


@pytest.mark.parametrize("transposed", [True, False])
def test_an_argument_is_replaced(op: Any, drawn: torch.Generator, transposed: bool) -> None:
    x = torch.randn(20, 33, generator=drawn)
    x = x.t() if transposed else x
    cross = torch.tensor([[0.0, 1, 0], [1, 1, 1], [0, 1, 0]])[None, None]
    sums = (torch.conv2d(each[None, None], cross, padding=1)[0, 0] for each in (x, torch.ones_like(x)))
    torch.testing.assert_close(op.launches_blurred(x), next(sums) / next(sums))
    with pytest.raises(RuntimeError, match=r"must have 2 dimensions, but is of shape \(2, 3, 4\)"):
        op.launches_blurred(torch.ones(2, 3, 4))


@pytest.mark.parametrize("size", [1, 128, 20000])
def test_as_many_launches_as_it_takes(op: Any, drawn: torch.Generator, size: int) -> None:
    x = torch.randn(size, generator=drawn)
    torch.testing.assert_close(op.launches_total(x), x.sum().reshape(1), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match=r"must be float32, not torch\.float64"):
        op.launches_total(x.double())


def test_loops_that_end_early(op: Any) -> None:
    x = torch.tensor([1, 5, 300, 64, 7, 9])
    for most, least in ((0, 1), (1, 0), (3, 2), (5, 3), (9, 1)):
        assert op.launches_halved(x, most, least).equal(prototype.launches_halved(x, most, least))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_orders_of_dimensions_dtypes_and_powers(op: Any, drawn: torch.Generator, dtype: torch.dtype) -> None:
    x = (9 * torch.randn(2, 3, 4, generator=drawn)).to(dtype).transpose(0, 2)
    for found, expected in zip(op.launches_permuted(x, 3, 1.5), prototype.launches_permuted(x, 3, 1.5), strict=True):
        assert found.equal(expected)
        assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())


@pytest.mark.parametrize("size", [0, 1, 4, 6])
def test_slices_end_where_the_tensor_does(op: Any, size: int) -> None:
    x = torch.arange(1, size + 1)
    for ends in ((0, 3), (2, 9), (-3, -1), (-9, 2), (4, 1), (7, -9)):
        for found, expected in zip(op.launches_sliced(x, *ends), prototype.launches_sliced(x, *ends), strict=True):
            assert found.equal(expected), ends


def test_loops_that_return_or_have_else(op: Any) -> None:
    x = torch.tensor([1, 5, 300, 64, 7, 9, 2000])
    for most, least in itertools.product(range(8), range(12)):
        expected = prototype.launches_searched(x, most, least)
        assert op.launches_searched(x, most, least).equal(expected), (most, least)


def test_a_helper_raises_unless_a_loop_returns(op: Any) -> None:
    x = torch.tensor([3])
    with pytest.raises(RuntimeError, match="least must not be negative"):
        op.launches_searched(x, 0, -1)
    with pytest.raises(RuntimeError, match="least must be below 25, but is 25"):
        op.launches_searched(x, 0, 25)


def test_an_assertion_is_a_check(op: Any) -> None:
    with pytest.raises(RuntimeError, match=r"x must be a row of int64, not torch\.float32"):
        op.launches_searched(torch.ones(3), 1, 1)
    with pytest.raises(RuntimeError, match="most must not be negative"):
        op.launches_searched(torch.ones(3, dtype=torch.int64), -1, 1)


@pytest.mark.parametrize("mode", ["each", "all"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_branches_have_their_own_checks(op: Any, mode: str, dtype: torch.dtype) -> None:
    x = torch.arange(6, dtype=dtype)
    weight = torch.full((1, 2), 3, dtype=torch.int32) if mode == "each" else torch.full((2,), 4)
    for given, most in itertools.product((x, x.view(2, 3)), (-1, 16, 17, 64)):
        arguments = given, weight, most, mode
        assert op.launches_branched(*arguments).equal(prototype.launches_branched(*arguments)), most
    for arguments, problem in {
        (x.int(), weight, 1, mode): r"x must be floating, not torch\.int32",
        (x.view(2, 3, 1), weight, 1, mode): "must have one or two dimensions, not 3",
        (x, weight, 1, "all" if mode == "each" else "each"): "weight must be a",
        (x, weight, 65, mode): "most must be at most 64, but is 65",
    }.items():
        for function in (op.launches_branched, prototype.launches_branched):
            with pytest.raises(RuntimeError, match=problem):
                function(*arguments)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_numbers(op: Any, drawn: torch.Generator, dtype: torch.dtype) -> None:
    x = torch.randn(9, generator=drawn, dtype=dtype)
    torch.testing.assert_close(op.launches_rotated(x), prototype.launches_rotated(x))


@pytest.mark.parametrize("columns", [1, 100, 7000])
def test_dynamic_shared_memory_of_more_than_48_kib_too(op: Any, drawn: torch.Generator, columns: int) -> None:
    x = torch.randn(3, columns, generator=drawn, dtype=torch.float64)
    assert op.launches_turned(x).equal(x.flip(1))
    assert prototype.launches_turned(x).equal(x.flip(1))


def test_a_kernel_that_waits_for_the_grid_is_launched_cooperatively(op: Any) -> None:
    x = torch.arange(100, dtype=torch.float64)
    assert op.launches_averaged(x).equal(x - 49.5)
    assert prototype.launches_averaged(x).equal(x - 49.5)
