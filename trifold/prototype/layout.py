"""Tensors in the form that kernels expect: in the memory order of elementwise results, or as rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def flat(x: Tensor, layout: Tensor | None = None) -> Tensor:
    """The elements of ``x`` as a 1-D tensor, in the memory order of the dense tensor ``layout`` (default ``x``).

    A view if ``x`` has the memory layout of ``layout``, else a copy: ``trifold::in_layout_of`` of the C++ binding.
    """
    layout = x if layout is None else layout
    same = all(size <= 1 or a == b for size, a, b in zip(x.shape, x.stride(), layout.stride(), strict=True))
    if not same:
        copy = torch.empty_strided(layout.shape, layout.stride(), dtype=x.dtype, device=x.device)
        x = copy.copy_(x)
    return x.as_strided((x.numel(),), (1,))


def rows(x: Tensor) -> Tensor:
    """``x`` as a matrix whose rows are its last dimension: ``trifold::Rows`` of the C++ binding.

    A 0-d tensor has one row of one column. A view if rows are at equal distances, else a copy.
    """
    columns = x.shape[-1] if x.dim() else 1
    return x.reshape(math.prod(x.shape[:-1]), columns)
