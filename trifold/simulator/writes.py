"""The bytes of memory that were last written by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def record_writes(on: bool) -> None:
    """From now on, record which bytes the kernels of launches write; or stop recording.

    Switching it on discards earlier records; switching it off does not. It is off initially, which costs nothing. While
    it is on, each launch has shadow memory, so that it takes as long as one with the check ``race``, whatever is
    checked; and a failed launch is not recorded. Of several schedules the first one's writes are recorded, whose
    results are kept.
    """
    from trifold import _simulator

    _simulator.record_writes(on)


def written(begin: int, size: int) -> bytes:
    """For each byte of memory from the address ``begin`` on: 1 if a kernel wrote it last, else 0.

    A byte counts if a launch since :func:`record_writes` wrote it, even if only by an atomic, and it still has that
    launch's value. Memory is compared byte by byte, so an element is a kernel's if all of its bytes are 1: a number
    that something else overwrote may have some bytes in common with the previous one. A value that something else
    writes again still counts as the kernel's, and so does one in the reused memory of a freed tensor.

    ``trifold.prototype.launch`` stages half types in float32; its rounding of a kernel's numbers counts as written, see
    :func:`carry_over`. A torch tensor and a NumPy array are the kernel's own memory, at their own addresses. A device
    array has separate memory: the result of ``copy_to_host``, and arrays that ``cuda.Out`` or an argument of an
    extension fills after the kernel, are copies, which count as not written.

    Args:
        begin: the address; the memory must be accessible, as a living tensor's is.
        size: the number of bytes.

    Raises:
        ValueError: ``size`` is negative.
    """
    from trifold import _simulator

    return _simulator.written(begin, size)


def carry_over(staged: Tensor, result: Tensor) -> None:
    """Count the elements of ``result``, copied from those of ``staged``, as written where those were.

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
