"""Memory in the op's process: that of a call's arguments, and what earlier calls left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .channel import Arena
from .device_memory import wait_for
from .tensors import Json, bytes_of, storage_key

Key = tuple[int, int]  # of a storage: see storage_key

_LARGE = 2**28  # bytes of a GPU's memory that are freed at once
_POISON = 0xFF  # every floating type reads it as nan


@dataclass
class Held:
    """Memory of earlier calls: a result's, which the judge may read again; or all memory of a call whose graph is kept.

    Attributes:
        tensors: one for each storage, which is filled with nan when this is released.
        arguments: those of them that the judge sent.
        outputs, inputs: of the graph; empty for a call without gradients.
    """

    tensors: list[Tensor]
    arguments: list[Tensor]
    outputs: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)


class Memory:
    """Puts the arguments of each call at other addresses, and fills what is released with nan.

    Attributes:
        calls: those that are held, by number.
    """

    def __init__(self) -> None:
        self.calls: dict[int, Held] = {}
        self._keys: dict[int, list[Key]] = {}  # of what is held, by number, with the keys at that time
        self._holders: Counter[Key] = Counter()
        self._results: dict[int, Tensor] = {}
        self._numbers: dict[Key, int] = {}  # of results
        self._next = 1
        self._ballast: list[Tensor] = []
        self._same_place: dict[str, list[Tensor]] = {}  # of the last call, and of the last backward pass

    def result(self, number: int) -> Tensor:
        """A result that is held."""
        return self._results[number]

    def hold_result(self, owner: Tensor) -> int:
        """The number of a result's memory; that of an earlier result if they share memory."""
        key = storage_key(owner)
        if key not in self._numbers:
            self._numbers[key] = self._number([owner])
            self._results[self._numbers[key]] = owner.detach()
        return self._numbers[key]

    def hold(self, held: Held) -> int:
        number = self._number(held.tensors)
        self.calls[number] = held
        return number

    def _number(self, tensors: Iterable[Tensor]) -> int:
        """A new number for tensors whose storages are kept."""
        number, self._next = self._next, self._next + 1
        self._keys[number] = [storage_key(tensor) for tensor in tensors]
        self._holders.update(self._keys[number])
        return number

    def release(self, numbers: list[int]) -> None:
        """Forget calls and results. Memory that no other call or result uses is filled with nan, so that an op that
        kept it has nothing."""
        gone: list[Tensor] = []
        for number in numbers:
            if number in self.calls:
                gone += self.calls.pop(number).tensors
            elif number in self._results:
                gone.append(self._results.pop(number))
                del self._numbers[self._keys[number][0]]
            for key in self._keys.pop(number, ()):
                self._holders[key] -= 1
                if self._holders[key] == 0:
                    del self._holders[key]
        for tensor in gone:
            if storage_key(tensor) not in self._holders and tensor.untyped_storage().nbytes() > 0:
                bytes_of(tensor).fill_(_POISON)
        large = any(tensor.is_cuda and tensor.untyped_storage().nbytes() >= _LARGE for tensor in gone)
        gone.clear()
        if large:  # other processes need it: torch would cache it for a block of the same size
            torch.cuda.empty_cache()

    def storages(
        self, incoming: Arena, places: list[Json], of: str, *, same_place: bool = False
    ) -> list[torch.UntypedStorage]:
        """Memory with the bytes of arguments or upstream gradients: fresh, at other addresses than the last ones'; or
        the last ones' own.

        Args:
            of: the kind of request. With ``same_place``, the memory is that of the last request of this kind, and its
                bytes change as a kernel would change them: without a change of the version counters.
        """
        sizes = [(place["bytes"], place["device"]) for place in places]
        before = [(t.untyped_storage().nbytes(), str(t.device)) for t in self._same_place.get(of, ())]
        if not (same_place and sizes == before):
            self._shuffle_addresses()
            self._same_place[of] = [torch.empty(n, dtype=torch.uint8, device=device) for n, device in sizes]
        for tensor, place in zip(self._same_place[of], places, strict=True):
            if place["bytes"]:
                with incoming.reading(place) as data:
                    bytes_of(tensor).copy_(data, non_blocking=True)
        wait_for(self._same_place[of])  # the op may read them in any stream
        return [tensor.untyped_storage() for tensor in self._same_place[of]]

    def _shuffle_addresses(self) -> None:
        """Allocate some memory of the sizes of small tensors, so that the next ones get other addresses."""
        self._ballast = self._ballast[-6:]
        self._ballast.append(torch.empty(64 * (1 + (7 * self._next) % 29), dtype=torch.uint8))

    def forget_place(self) -> None:
        """Free the memory of the last call's arguments, and of the last upstream gradients."""
        self._same_place.clear()
