"""Elementwise layouts for prototypes: the same rules as in ``<trifold/binding.h>``."""

from __future__ import annotations

import torch
from torch import Tensor


def elementwise_output(*operands: Tensor) -> Tensor:
    """A new, unwritten tensor for an elementwise result: the operands' shape and torch's own choice of strides.

    The strides are those that torch gives to the sum of the operands.
    """
    # In float32 whatever the dtype: for float16, torch 2.13 gives sums of meta tensors other strides than of real ones.
    shapes = [torch.empty_strided(x.shape, x.stride(), dtype=torch.float32, device="meta") for x in operands]
    total = shapes[0].clone() if len(shapes) == 1 else sum(shapes[1:], shapes[0])
    return torch.empty_strided(total.shape, total.stride(), dtype=operands[0].dtype, device=operands[0].device)


def flat(x: Tensor, layout: Tensor | None = None) -> Tensor:
    """The elements of ``x`` as a 1-D tensor, in the memory order of the dense tensor ``layout`` (default ``x``).

    A view where ``x`` lies in memory as ``layout`` does, else a copy.
    """
    layout = x if layout is None else layout
    same = all(size <= 1 or a == b for size, a, b in zip(x.shape, x.stride(), layout.stride(), strict=True))
    if not same:
        copy = torch.empty_strided(layout.shape, layout.stride(), dtype=x.dtype, device=x.device)
        x = copy.copy_(x)
    return x.as_strided((x.numel(),), (1,))
