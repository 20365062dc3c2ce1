"""Drafts of kernels for the types of their arguments. They are made in a separate process, since Numba's CUDA types are
unavailable where its simulator is on; a draft is cached with the builds, for later processes."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from trifold import own_process
from trifold.build import cache as builds
from trifold.simulator.compiled.request import Request
from trifold.whole_files import write_whole


@dataclass(frozen=True)
class DraftParameter:
    """As :class:`trifold.draft.functions.Parameter`, which needs Numba without its simulator."""

    name: str
    type: str
    argument: int
    kind: str
    dimension: int


@dataclass(frozen=True)
class Draft:
    """A kernel in C++: as :class:`trifold.draft.kernel.DraftedKernel`, with the prototype's name."""

    name: str
    text: str
    entry: str
    parameters: tuple[DraftParameter, ...]
    shapes: Mapping[str, tuple[int, ...]]
    by_regions: str


@dataclass(frozen=True)
class Refusal:
    """The reason why a kernel cannot be drafted."""

    reason: str


def draft_of(request: Request) -> Draft | Refusal:
    """The draft for a request: from the cache, or made now."""
    path = builds.builds_folder().parent / "drafts" / f"{request.digest(_drafter())}.json"
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        answer = _process(os.getpid()).ask(request)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(path, json.dumps(answer))
    if "refused" in answer:
        return Refusal(answer["refused"])
    parameters = tuple(DraftParameter(**each) for each in answer["parameters"])
    shapes = {name: tuple(lengths) for name, lengths in answer["shapes"].items()}
    return Draft(answer["name"], answer["text"], answer["entry"], parameters, shapes, answer["by_regions"])


@cache
def _drafter() -> str:
    """The dependencies of a draft besides the request: the drafter's sources, and the versions of its dependencies."""
    folder = Path(__file__).parents[2]
    files = [*sorted((folder / "draft").glob("*.py")), *sorted(Path(__file__).parent.glob("*.py"))]
    digest = hashlib.sha256(f"{sys.version} {version('numba')}".encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


@dataclass
class _Process:
    """The process that drafts, with its requests and answers."""

    process: subprocess.Popen[bytes]
    asked: IO[bytes]
    answers: IO[bytes]

    def end(self) -> None:
        self.asked.close()
        self.process.wait()

    def ask(self, request: Request) -> dict[str, Any]:
        try:
            pickle.dump(request, self.asked)
            self.asked.flush()
            answer: dict[str, Any] = json.loads(self.answers.readline())
        except (OSError, ValueError):
            _process.cache_clear()
            return {"refused": f"the process that drafts has ended, with status {self.process.wait()}"}
        return answer


@cache
def _process(_of: int) -> _Process:
    """The drafting process of the process with this id: a forked one has its own."""
    command = own_process.command("trifold.draft.simulated")
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    made = _Process(process, process.stdin, process.stdout)
    owner = os.getpid()
    atexit.register(lambda: made.end() if os.getpid() == owner else None)
    return made


# It runs without the simulator, and without tools that follow child processes.
_NOT_PASSED_ON = {"NUMBA_ENABLE_CUDASIM", "TRIFOLD_SIMULATOR", "COVERAGE_PROCESS_START", "PYTHONSTARTUP"}


def as_answer(draft: Draft | Refusal) -> dict[str, Any]:
    """A draft in JSON's types."""
    return {"refused": draft.reason} if isinstance(draft, Refusal) else asdict(draft)
