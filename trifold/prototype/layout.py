"""The memory order of elementwise operands, as ``trifold::in_layout_of`` of the C++ binding makes it."""

from __future__ import annotations

import torch
from torch import Tensor


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
