"""Tensors that torch allocates and does not write: what a kernel reads of them before anybody wrote it is a finding."""

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
    """Notes the memory of each new tensor on the CPU that an operator of torch leaves unwritten."""

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
    """What one engine knows of memory that nobody has written.

    Args:
        note: takes the address, bytes and bytes of an element of memory that was allocated and not written; fills it.
        forget: ends what was noted on this OS thread.
    """

    def __init__(self, note: Note, forget: Callable[[], object]) -> None:
        self._note, self._forget = note, forget
        self._depth = _Depth()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Tensors that torch's ``empty`` and its like make on the CPU count as unwritten until the outermost one ends.

        Their memory is filled with quiet NaNs. What kernels write of it counts as written, and so does what torch or
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
    """Which elements of a CPU tensor have a byte that is 1 in ``found``, which has one for each of its storage's bytes.

    None: no element has.
    """
    storage = torch.frombuffer(bytearray(found), dtype=torch.uint8)
    whole = storage[: storage.numel() // tensor.itemsize * tensor.itemsize]
    elements = whole.view(-1, tensor.itemsize).bool().any(1)
    mask = elements.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return mask if bool(mask.any()) else None
