"""Messages between the judge and the op's process: JSON over a socket, the bytes of tensors in shared memory.

No message is pickled, so that reading one runs no code of the other side.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
from typing import Any

import torch
from torch import Tensor

_LENGTH = struct.Struct("<Q")
_LONGEST = 1 << 28  # bytes of a message: what is longer is none
_LEAST_BYTES = 1 << 16
ALIGNMENT = 64  # bytes, of each storage in an arena


class Closed(Exception):
    """The other side has ended."""


class Arena:
    """Memory that two processes share, in a file without a name. One side writes it; either may have made it.

    Attributes:
        descriptor: of the file, for the other process.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = os.memfd_create("trifold") if descriptor is None else descriptor
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def bytes(self, count: int) -> Tensor:
        """The first ``count`` bytes, valid until the next call that asks for more."""
        if count > self._bytes.numel():
            size = max(_LEAST_BYTES, 1 << (count - 1).bit_length())
            if os.fstat(self.descriptor).st_size < size:
                os.ftruncate(self.descriptor, size)
            self._bytes = torch.frombuffer(mmap.mmap(self.descriptor, size), dtype=torch.uint8)
        return self._bytes[:count]

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
            Closed: there is none, and the other side has ended.
            TimeoutError: none came within the socket's time limit.
            ValueError: what came is no message.
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
