"""Arguments and results as JSON: a tensor is described as a view of a storage, whose bytes are in an arena.

Tensors that share a storage in one process share one in the other, so that aliases, overlaps and results in the memory
of an argument are preserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .channel import Arena

Json = Any


def bytes_of(tensor: Tensor) -> Tensor:
    """All bytes of a tensor's storage, as a tensor on its device that shares its memory."""
    return bytes_of_storage(tensor.untyped_storage())


def bytes_of_storage(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors within nested lists, tuples and dicts, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)


@dataclass
class Packed:
    """The storages of one message.

    Attributes:
        owners: one tensor of each storage, in the order of their numbers.
        generators: generators among the arguments.
    """

    owners: list[Tensor] = field(default_factory=list)
    generators: list[torch.Generator] = field(default_factory=list)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    _objects: dict[int, tuple[int, Tensor]] = field(default_factory=dict)

    def number(self, tensor: Tensor) -> int:
        """The number of a tensor's storage in the message."""
        key = storage_key(tensor)
        if key not in self._numbers:
            self._numbers[key] = len(self.owners)
            self.owners.append(tensor)
        return self._numbers[key]

    def known(self, tensor: Tensor) -> bool:
        return storage_key(tensor) in self._numbers

    def pack(self, value: Any) -> Json:
        """``value`` as JSON: a tensor, a generator, a dtype, a device, a list, a tuple, a dict, or a value that JSON
        has itself.

        Raises:
            TypeError: it is none of them.
        """
        match value:
            case Tensor():
                same, _ = self._objects.setdefault(id(value), (len(self._objects), value))
                described = {"tensor": self.number(value), "object": same, "offset": value.storage_offset()}
                return {**described, **form_of(value), "grad": value.requires_grad}
            case torch.Generator():
                self.generators.append(value)
                return {"generator": len(self.generators) - 1, "device": str(value.device)}
            case torch.dtype() | torch.device():
                return {type(value).__name__: str(value)}
            case bool() | int() | str() | None:
                return value
            case float():
                return {"float": value.hex()}
            case complex():
                return {"complex": [value.real.hex(), value.imag.hex()]}
            case list():
                return {"list": [self.pack(one) for one in value]}
            case tuple():  # including torch.Size
                return {"tuple": [self.pack(one) for one in value]}
            case dict():
                return {"dict": {str(name): self.pack(one) for name, one in value.items()}}
        raise TypeError(f"a {type(value).__name__} cannot be sent to the op's process")

    def write(self, arena: Arena, extra: list[Tensor] | None = None) -> tuple[list[Json], list[Json]]:
        """Copy all storages, and the ``extra`` bytes, into an arena; returns the place of each."""
        places = arena.write([*map(bytes_of, self.owners), *(extra or [])])
        return places[: len(self.owners)], places[len(self.owners) :]


def flattened(result: Any) -> tuple[list[Any], Json]:
    """The values of a result without nesting, and the nesting as JSON."""
    leaves: list[Any] = []

    def structure(value: Any) -> Json:
        if isinstance(value, tuple | list):
            return [type(value).__name__, *map(structure, value)]
        leaves.append(value)
        return len(leaves) - 1

    return leaves, structure(result)


def restored(leaves: Sequence[Any], structure: Json) -> Any:
    """The inverse of :func:`flattened`."""
    if isinstance(structure, int):
        return leaves[structure]
    values = [restored(leaves, one) for one in structure[1:]]
    return tuple(values) if structure[0] == "tuple" else values


def numbered(like: Tensor) -> Tensor:
    """A tensor of the same shape and dtype with the numbers 1 to 7, repeated: an upstream gradient without
    symmetries."""
    numbers = torch.arange(like.numel(), device=like.device) % 7 + 1
    return torch.empty_like(like).copy_(numbers.view(like.shape))


def mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """``value`` with each tensor in it replaced by ``change(tensor)``, also within lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(mapped(one, change) for one in value)
    if isinstance(value, dict):
        return {name: mapped(one, change) for name, one in value.items()}
    return value


def storage_key(tensor: Tensor) -> tuple[int, int]:
    """Identifies a storage. One without bytes has no address and gets a number."""
    storage = tensor.untyped_storage()
    return (storage.data_ptr(), 0) if storage.nbytes() > 0 else (0, storage._cdata)


def form_of(tensor: Tensor) -> dict[str, Json]:
    """Shape, strides, dtype and device of a tensor as JSON; a size or stride that a fake leaves open is null."""
    return {
        "shape": [_known(size) for size in tensor.shape],
        "stride": [_known(stride) for stride in tensor.stride()],
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": str(tensor.device),
    }


def _known(size: int | torch.SymInt) -> int | None:
    return size if isinstance(size, int) else None


class Unpacking:
    """Restores values from the JSON of one :class:`Packed`: a tensor that occurred twice is one tensor again.

    Args:
        storage_of: returns the storage of a number.
        generator_of: returns the generator of a number.
    """

    def __init__(
        self,
        storage_of: Callable[[int], torch.UntypedStorage],
        generator_of: Callable[[int], torch.Generator] | None = None,
    ) -> None:
        self._storage_of, self._generator_of = storage_of, generator_of
        self._objects: dict[int, Tensor] = {}

    def value(self, data: Json) -> Any:
        """The inverse of :meth:`Packed.pack`.

        Raises:
            ValueError: ``data`` is not a packed value.
        """
        if not isinstance(data, dict):
            return data
        match data:
            case {"tensor": int(number), "object": int(same)}:
                if same not in self._objects:
                    self._objects[same] = self._tensor(number, data)
                return self._objects[same]
            case {"generator": int(number)} if self._generator_of is not None:
                return self._generator_of(number)
            case {"dtype": str(name)}:
                return getattr(torch, name.removeprefix("torch."))
            case {"device": str(name)}:
                return torch.device(name)
            case {"float": str(text)}:
                return float.fromhex(text)
            case {"complex": [str(real), str(imaginary)]}:
                return complex(float.fromhex(real), float.fromhex(imaginary))
            case {"list": list(values)}:
                return [self.value(one) for one in values]
            case {"tuple": list(values)}:
                return tuple(self.value(one) for one in values)
            case {"dict": dict(items)}:
                return {name: self.value(one) for name, one in items.items()}
        raise ValueError(f"{data!r} is no value")

    def _tensor(self, number: int, data: Json) -> Tensor:
        storage = self._storage_of(number)
        tensor = torch.empty(0, dtype=getattr(torch, data["dtype"]), device=storage.device)
        tensor.set_(storage, data["offset"], data["shape"], data["stride"])
        return tensor.requires_grad_() if data["grad"] else tensor
