"""Strides of results: torch's own choice, for fakes and prototypes."""

from __future__ import annotations

import torch
from torch import Tensor


def elementwise_output(*operands: Tensor) -> Tensor:
    """A new, uninitialised tensor for an elementwise result, as ``trifold::elementwise_output`` of the C++ binding.

    Args:
        operands: one or more tensors of one shape; the first sets dtype and device. Fake tensors are fine.

    Returns:
        A dense tensor with the strides that the sum of the operands has in torch.
    """
    # In float32 whatever the dtype: for half types, torch 2.13 gives sums of fake tensors other strides than of real
    # ones, where one operand is expanded and another transposed.
    shapes = [torch.empty_strided(x.shape, x.stride(), dtype=torch.float32, device="meta") for x in operands]
    total = shapes[0].clone() if len(shapes) == 1 else sum(shapes[1:], shapes[0])
    return torch.empty_strided(total.shape, total.stride(), dtype=operands[0].dtype, device=operands[0].device)


def row_output(x: Tensor) -> Tensor:
    """A new, uninitialised tensor for a result that an op computes row by row, as ``trifold::row_output`` of the C++
    binding.

    Shape, dtype and device of ``x``, contiguous whatever the strides of ``x``. A fake tensor is fine.
    """
    return x.new_empty(x.shape)
