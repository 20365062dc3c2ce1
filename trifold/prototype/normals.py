"""Normal random numbers for references, in PyTorch: those that ``<trifold/philox.cuh>`` generates in a kernel.

Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) and Box–Muller.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def normals(seed: Tensor, offset: int, count: int, dtype: torch.dtype) -> Tensor:
    """The first ``count`` normals of the draw ``(seed, offset)``, computed in ``dtype``."""
    low = 0xFFFFFFFF
    group = torch.arange(-(-count // 4), dtype=torch.int64, device=seed.device)
    draw = torch.full_like(group, offset // 4)
    words = philox((draw & low, draw >> 32 & low, group & low, group >> 32 & low), (seed & low, seed >> 32 & low))
    first, second = box_muller(words[0], words[1], dtype), box_muller(words[2], words[3], dtype)
    return torch.stack([*first, *second], dim=1).reshape(-1)[:count]


def philox(counter: tuple[Tensor, ...], key: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Philox 4x32-10 on int64 tensors that hold 32-bit words. A product wraps round at 64 bits; its bits are right."""
    low = 0xFFFFFFFF
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1 = (p1 >> 32 & low) ^ c1 ^ k0, p1 & low
        c2, c3 = (p0 >> 32 & low) ^ c3 ^ k1, p0 & low
        k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
    return c0, c1, c2, c3


def box_muller(radius_word: Tensor, angle_word: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Two normals: a radius times cosine and sine of an angle.

    The angle is (π/4)·w; bit 1 of its word mirrors it to the next quarter turn, bit 0 adds a half turn. The uniform
    numbers u in (0, 1] and w in [-1, 1] are rounded to float32 at each step, whatever ``dtype`` is.
    """
    u = (radius_word.to(torch.float32) * 2.0**-32 + 2.0**-33).to(dtype)
    signed = angle_word - (angle_word >> 31 << 32)
    angle = 0.25 * math.pi * (signed.to(torch.float32) * 2.0**-31 + 2.0**-32).to(dtype)
    radius = torch.sqrt(-2 * torch.log(u))
    turned = torch.where(angle_word & 1 == 1, -radius, radius)
    cosine, sine = turned * torch.cos(angle), turned * torch.sin(angle)
    mirrored = angle_word & 2 == 2
    return torch.where(mirrored, sine, cosine), torch.where(mirrored, cosine, sine)
