"""A client of the Debug Adapter Protocol, as VS Code is one: it starts debugpy's adapter and speaks over its pipes."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any, Self

Message = dict[str, Any]


class DebugAdapter:
    """One debugging session.

    Every wait ends after ``timeout`` seconds with an :class:`AssertionError` that shows what was received.
    """

    def __init__(self, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self.output = ""
        self._sequence = 0
        self._received: queue.Queue[Message | None] = queue.Queue()
        self._events: list[Message] = []
        self._history: list[Message] = []
        command = [sys.executable, "-Xfrozen_modules=off", "-m", "debugpy.adapter"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def send(self, command: str, **arguments: Any) -> int:
        self._sequence += 1
        message = {"seq": self._sequence, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()
        return self._sequence

    def request(self, command: str, **arguments: Any) -> Message:
        """The body of the answer."""
        return self.answer(self.send(command, **arguments))

    def answer(self, sequence: int) -> Message:
        message = self._wait(lambda m: m["type"] == "response" and m["request_seq"] == sequence)
        assert message["success"], message
        body: Message = message.get("body") or {}
        return body

    def event(self, *names: str) -> Message:
        """The next event of one of these names, from those that no call has taken."""
        for position, message in enumerate(self._events):
            if message["event"] in names:
                return self._events.pop(position)
        message = self._wait(lambda m: m["type"] == "event" and m["event"] in names)
        self._events.remove(message)
        return message

    def _wait(self, wanted: Callable[[Message], bool]) -> Message:
        end = time.monotonic() + self.timeout
        while True:
            try:
                message = self._received.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"nothing came within {self.timeout} s; received: {self._history[-8:]}") from None
            assert message is not None, f"the adapter ended; output: {self.output}"
            self._history.append(message)
            if message["type"] == "event":
                if message["event"] == "output":
                    self.output += message["body"]["output"]
                else:
                    self._events.append(message)
            if wanted(message):
                return message

    def _read(self, stream: IO[bytes]) -> None:
        while header := stream.readline():
            length = int(header.split(b":")[1])
            while stream.readline() not in (b"\r\n", b""):
                pass
            self._received.put(json.loads(stream.read(length)))
        self._received.put(None)
