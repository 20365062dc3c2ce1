"""Tracks uninitialised torch tensors: a kernel's read of memory that nothing has written is a finding."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from trifold.torch_calls import TorchCalls

Note = Callable[[int, int, int], object]

_ALLOCATING = frozenset(
    getattr(packet, overload)
    for packet in (
        torch.ops.aten.empty,
        torch.ops.aten.empty_like,
        torch.ops.aten.empty_permuted,
        torch.ops.aten.empty_strided,
        torch.ops.aten.new_empty,
        torch.ops.aten.new_empty_strided,
    )
    for overload in packet.overloads()
    if not overload.endswith("out")
)


class _Allocations(TorchCalls):
    """Records the memory of each new CPU tensor that an operator of torch leaves uninitialised."""

    def __init__(self, note: Note) -> None:
        super().__init__()
        self._note = note

    def called(self, function: Any, arguments: tuple[Any, ...], result: Any) -> None:
        if function in _ALLOCATING and result.device.type == "cpu" and result.layout == torch.strided:
            storage = result.untyped_storage()
            self._note(storage.data_ptr(), storage.nbytes(), result.itemsize)


class _Depth(threading.local):
    value = 0


class FreshMemory:
    """One engine's record of unwritten memory.

    Args:
        note: called with the address, bytes and element size of memory that was allocated and not written; fills it.
        forget: discards the records of this OS thread.
    """

    def __init__(self, note: Note, forget: Callable[[], object]) -> None:
        self._note, self._forget = note, forget
        self._depth = _Depth()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """CPU tensors made by torch's ``empty`` and its like count as unwritten until the outermost context ends.

        Their memory is filled with quiet NaNs. Bytes that kernels write count as written, and so do bytes that torch or
        the host changes in between.
        """
        self._depth.value += 1
        try:
            with _Allocations(self._note):
                yield
        finally:
            self._depth.value -= 1
            if self._depth.value == 0:
                self._forget()


def unwritten_elements(tensor: Tensor, found: bytes) -> Tensor | None:
    """The elements of a CPU tensor with a byte that is 1 in ``found``, which has one for each byte of its storage.

    None: there are none.
    """
    storage = torch.frombuffer(bytearray(found), dtype=torch.uint8)
    whole = storage[: storage.numel() // tensor.itemsize * tensor.itemsize]
    elements = whole.view(-1, tensor.itemsize).bool().any(1)
    mask = elements.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return mask if bool(mask.any()) else None
