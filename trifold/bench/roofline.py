"""The memory rate of this machine, measured together with the competitors and with as many bytes.

``copy`` reads as many bytes as it writes, ``write`` writes only. Each is the best of several ways, in one run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from trifold.bench.native import native
from trifold.bench.timing import Competitor
from trifold.spec.benchmark import Roofline

_VECTOR = 16  # bytes


def roofline(kind: Roofline, moved: int, device: torch.device, sets: int) -> dict[str, Competitor]:
    """The ways to move ``moved`` bytes, as competitors over ``sets`` pairs of buffers; none if nothing moves."""
    if moved < 2 * _VECTOR:
        return {}
    size = moved if kind == "write" else moved // 2
    size -= size % _VECTOR

    @functools.cache  # made by the first way that is prepared, shared by all
    def buffers() -> list[Tensor]:
        return [torch.randint(256, (size,), device=device, dtype=torch.uint8) for _ in range(sets)]

    @functools.cache
    def destinations() -> list[Tensor]:
        return [torch.empty_like(buffer) for buffer in buffers()]

    def writing(write: Callable[[Tensor], object]) -> Competitor:
        return lambda: [functools.partial(write, buffer) for buffer in buffers()]

    def copying(copy: Callable[[Tensor, Tensor], object]) -> Competitor:
        return lambda: [functools.partial(copy, *pair) for pair in zip(destinations(), buffers(), strict=True)]

    if kind == "write":
        return {
            "memset": writing(lambda buffer: buffer.zero_()),
            "fill_": writing(lambda buffer: buffer.view(torch.float32).fill_(1.0)),
        }
    ways = {"copy_": copying(Tensor.copy_), "bitwise_not": copying(_bitwise_not)}
    if device.type == "cuda":
        ways["copy kernel"] = copying(_copy_kernel())
    return ways


def _bitwise_not(destination: Tensor, source: Tensor) -> object:
    """Torch's elementwise kernel: as fast as a copy, and needs no compiler."""
    return torch.bitwise_not(source.view(torch.int32), out=destination.view(torch.int32))


def _copy_kernel() -> Callable[[Tensor, Tensor], object]:
    return native(Path(__file__).with_name("copy.cu"), "copy(Tensor(a!) destination, Tensor source) -> ()")
