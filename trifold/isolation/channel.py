"""Messages between the judge and the op's process: JSON over a socket, and the bytes of tensors in shared memory.

The bytes of large tensors on a GPU stay there, if its driver lets processes share memory. Nothing is pickled, so that
reading a message never runs code of the other side.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from . import device_memory
from .device_memory import DriverError, Lent

_LENGTH = struct.Struct("<Q")
_LONGEST = 1 << 28  # bytes of a message; a longer one is refused
_LEAST_BYTES = 1 << 16
ALIGNMENT = 64  # bytes, of each storage in an arena
LEAST_ON_GPU = 16 * 2**20  # bytes of a block; larger ones are not copied through the host's memory
LEAST_IN_PLACE = 2**30  # bytes of a block; for larger ones, a GPU may not have room for a copy


class Closed(Exception):
    """The other side has closed the connection."""


class Arena:
    """Memory that two processes share, in a file without a name. One side writes it; either may have created it.

    Attributes:
        descriptor: of the file, for the other process.
        on_gpu: whether the other process can map this one's memory on a GPU.
        in_place: whether it may map large tensors themselves, which it could then change, instead of copies.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = os.memfd_create("trifold") if descriptor is None else descriptor
        self.on_gpu = self.in_place = False
        self._bytes = torch.empty(0, dtype=torch.uint8)
        self._lent: list[Lent] = []

    def bytes(self, count: int) -> Tensor:
        """The first ``count`` bytes, valid until the next call with a larger count."""
        if count > self._bytes.numel():
            size = max(_LEAST_BYTES, 1 << (count - 1).bit_length())
            if os.fstat(self.descriptor).st_size < size:
                os.ftruncate(self.descriptor, size)
            self._bytes = torch.frombuffer(mmap.mmap(self.descriptor, size), dtype=torch.uint8)
        return self._bytes[:count]

    def write(self, blocks: Sequence[Tensor]) -> list[dict[str, Any]]:
        """Copy blocks of bytes, over what was written before; returns the place of each."""
        self.release()
        places: list[dict[str, Any]] = []
        end = 0
        for block in blocks:
            place: dict[str, Any] = {"bytes": block.numel(), "device": str(block.device)}
            handle = self._lend(block)
            if handle is not None:
                places.append(place | {"handle": handle})
                continue
            places.append(place | {"at": end})
            end += -(-block.numel() // ALIGNMENT) * ALIGNMENT
        memory = self.bytes(end)
        copied = [(block, place["at"]) for block, place in zip(blocks, places, strict=True) if "at" in place]
        ready = device_memory.staged([block for block, _ in copied])
        for block, (_, begin) in zip(ready, copied, strict=True):
            memory[begin : begin + block.numel()].copy_(block)
        return places

    def _lend(self, block: Tensor) -> str | None:
        if not self.on_gpu or not block.is_cuda or block.numel() < LEAST_ON_GPU:
            return None
        try:
            self._lent.append(Lent(block, in_place=self.in_place and block.numel() >= LEAST_IN_PLACE))
        except DriverError:
            return None
        return self._lent[-1].handle

    @contextlib.contextmanager
    def reading(self, place: dict[str, Any]) -> Iterator[Tensor]:
        """The bytes at a place that the other process has written, without a copy: in the host's memory, or on the
        GPU."""
        if "handle" in place:
            with device_memory.borrowed(place["handle"], place["bytes"], torch.device(place["device"])) as data:
                yield data
        else:
            yield self.bytes(place["at"] + place["bytes"])[place["at"] :]

    def release(self) -> None:
        """Free memory of the GPU that was lent. The other process has read it: it has answered, or sent a request."""
        for lent in self._lent:
            lent.release()
        self._lent.clear()

    def close(self) -> None:
        os.close(self.descriptor)
        self._bytes = torch.empty(0, dtype=torch.uint8)


class Channel:
    """One end of a connection.

    Attributes:
        socket: a stream.
        outgoing, incoming: the arenas that this side writes, and reads.
    """

    def __init__(self, connection: socket.socket, outgoing: Arena, incoming: Arena) -> None:
        self.socket, self.outgoing, self.incoming = connection, outgoing, incoming

    def send(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        try:
            self.socket.sendall(_LENGTH.pack(len(text)) + text)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            Closed: the other side has closed the connection.
            TimeoutError: no message arrived within the socket's time limit.
            ValueError: what arrived is not a message.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > _LONGEST:
            raise ValueError(f"a message of {length} bytes")
        message = json.loads(self._exactly(length))
        if not isinstance(message, dict):
            raise ValueError("a message is no object")
        return message

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(min(count - len(parts), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise Closed
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self.socket.close()
        self.outgoing.close()
        self.incoming.close()
