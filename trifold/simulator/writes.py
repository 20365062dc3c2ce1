"""Which bytes of memory kernels were the last to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def record_writes(on: bool) -> None:
    """From now on, note which bytes the kernels of launches write; or note no more.

    Switching it on forgets what was noted before; switching it off does not. It is off at first, which costs nothing.
    While it is on, each launch has shadow memory, so that it takes as long as one with the check ``race``, whatever is
    checked; and a launch that fails is not noted. Of several schedules the first one's writes are noted, which is the
    one whose results stay.
    """
    from trifold import _simulator

    _simulator.record_writes(on)


def written(begin: int, size: int) -> bytes:
    """For each byte of memory from the address ``begin`` on: 1 if a kernel was the last to write it, else 0.

    That is so where a launch since :func:`record_writes` wrote the byte, if only by an atomic, and it still holds what
    that launch left there. Memory is compared byte by byte, so an element is a kernel's where all of its bytes are 1: a
    number that something else overwrote may have some bytes in common with the one before. A value that something else
    writes again counts as the kernel's still, and so does one in the reused memory of a tensor that is gone.

    ``trifold.prototype.launch`` stages half types in float32; what it rounds of a kernel's numbers counts as written,
    see :func:`carry_over`. A torch tensor and a NumPy array are the kernel's own memory, and are found at their own
    addresses. A device array has memory of its own: what ``copy_to_host`` makes of it, and what ``cuda.Out`` or an
    argument of an extension gets after the kernel, are copies, which count as not written.

    Args:
        begin: the address; the memory must be there, as that of a tensor is while the tensor lives.
        size: how many bytes.

    Raises:
        ValueError: ``size`` is negative.
    """
    from trifold import _simulator

    return _simulator.written(begin, size)


def carry_over(staged: Tensor, result: Tensor) -> None:
    """Count the elements of ``result``, into which those of ``staged`` were copied, as written where those were.

    Args:
        staged: contiguous, on the CPU, written by a kernel.
        result: of the same shape, with any strides and dtype.
    """
    import torch

    from trifold import _simulator

    if not _simulator.recording() or staged.numel() == 0:
        return
    found = torch.frombuffer(bytearray(written(staged.data_ptr(), staged.nbytes)), dtype=torch.uint8)
    whole = found.view(-1, staged.itemsize).bool().all(1)
    if bool(whole.all()) and result.is_contiguous():
        _simulator.note_copy(result.data_ptr(), result.nbytes)
        return
    extent = 1 + sum((size - 1) * stride for size, stride in zip(result.shape, result.stride(), strict=True))
    places = torch.arange(extent).as_strided(result.shape, result.stride()).flatten()[whole]
    for place in places.tolist():
        _simulator.note_copy(result.data_ptr() + place * result.itemsize, result.itemsize)
