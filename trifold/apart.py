"""Tensors whose parts lie so far apart in memory that an offset needs more than 32 bits."""

from __future__ import annotations

import mmap

import torch
from torch import Tensor

_NORESERVE = 0x4000  # of Linux's mmap: memory that is never touched is not counted
# Elements of 0: an offset that wraps around in 32 bits reads one of them, instead of ending the process.
_BEFORE = 2**31


def far_apart(tensor: Tensor, dim: int, stride: int) -> Tensor:
    """A copy of a tensor on the CPU in which neighbours along one dimension are ``stride`` elements apart.

    Only the pages that hold elements exist: a copy that spans terabytes takes little memory.

    Args:
        tensor: unchanged; its copy is contiguous but for that dimension, and a leaf that requires a gradient if
            ``tensor`` does.
        dim: counts the dimensions of more than one element, from 0; without that many, ``tensor`` itself is returned.
        stride: more than the elements of ``tensor``.

    Raises:
        ValueError: ``stride`` is too small.
        OSError: the process has too little address space.

    >>> import torch
    >>> from trifold.apart import far_apart
    >>> far_apart(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0, 2**32).stride()
    (4294967296, 1)
    """
    long = [d for d, size in enumerate(tensor.shape) if size > 1]
    if dim >= len(long) or tensor.numel() == 0:
        return tensor
    if stride <= tensor.numel():
        raise ValueError(f"stride must be more than {tensor.numel()}, the elements of the tensor, but is {stride}")
    of_others = tensor.select(long[dim], 0)
    strides = list(torch.empty(of_others.shape, device="meta").stride())
    strides.insert(long[dim], stride)
    count = _BEFORE + (tensor.shape[long[dim]] - 1) * stride + of_others.numel()
    memory = torch.frombuffer(_reserved(count * tensor.itemsize), dtype=tensor.dtype)
    apart = memory.as_strided(tensor.shape, strides, _BEFORE)
    return apart.copy_(tensor.detach()).requires_grad_(tensor.requires_grad)


def can_reserve(size: int) -> bool:
    """Whether a process here can reserve so many bytes of addresses."""
    try:
        _reserved(size).close()
    except OSError:
        return False
    return True


def _reserved(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
