"""Tensors whose parts lie far apart in memory."""

from __future__ import annotations

import pytest
import torch

from trifold.apart import can_reserve, far_apart
from trifold.verification.tolerance import same_bits

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("shape", "dim", "strides"),
    [
        ((3, 4), 0, (2**32 + 65, 1)),
        ((3, 4), 1, (1, 2**32 + 65)),
        ((1, 3, 1, 4), 1, (3, 1, 1, 2**32 + 65)),
        ((2, 3, 4), 1, (4, 2**32 + 65, 1)),
        ((64, 8), 0, (2**32 + 65, 1)),
    ],
    ids=str,
)
def test_the_numbers_are_the_same(
    shape: tuple[int, ...], dim: int, strides: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.arange(torch.Size(shape).numel()).view(shape).to(dtype)
    apart = far_apart(x, dim, 2**32 + 65)
    assert apart.stride() == strides
    assert same_bits(apart.contiguous(), x)


def test_an_offset_that_wraps_around_is_that_of_a_zero() -> None:
    x = far_apart(torch.ones(3), 0, 2**30)
    (wrapped,) = x.as_strided((1,), (1,), x.storage_offset() - 2**31)
    assert wrapped == 0


@pytest.mark.parametrize(("shape", "dim"), [((), 0), ((1,), 0), ((3,), 1), ((0, 3), 0), ((1, 5), 1)], ids=str)
def test_without_such_a_dimension_it_is_the_tensor(shape: tuple[int, ...], dim: int) -> None:
    x = torch.zeros(shape)
    assert far_apart(x, dim, 2**32) is x


def test_a_copy_is_a_leaf() -> None:
    x = torch.ones(2, requires_grad=True)
    copy = far_apart(x, 0, 2**32)
    (2 * copy).sum().backward()
    assert copy.grad is not None and copy.grad.tolist() == [2, 2]
    assert x.grad is None
    assert not far_apart(x.detach(), 0, 2**32).requires_grad


def test_a_stride_that_would_overlap_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 6"):
        far_apart(torch.zeros(2, 3), 0, 6)


def test_more_addresses_than_there_are() -> None:
    assert can_reserve(2**40)
    assert not can_reserve(2**60)
