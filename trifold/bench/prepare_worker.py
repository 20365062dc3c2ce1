"""The process that makes first calls for :mod:`trifold.bench.prepare`.

    python -m trifold.bench.prepare_worker WORKSPACE DEVICE CONNECTION

Through the connection, a file descriptor, it receives calls and answers each with the reason why it failed, or an empty
text, and with whether that left the GPU unusable for this process. It begins with an empty answer: it is ready.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from trifold import own_process
from trifold.bench.entrants import competitor, entrants, implementations
from trifold.bench.ops import benchmarks_of
from trifold.bench.prepare import FirstCall, compile_here
from trifold.bench.roofline import roofline
from trifold.bench.rows import PORT, ROOFLINE
from trifold.bench.run import Task, release, repeatable
from trifold.bench.timing import Failure
from trifold.cells import Device
from trifold.spec.benchmark import Benchmark, Case
from trifold.workspace import Workspace


def serve(connection: Connection, workspace: Workspace, device: Device) -> None:
    """Make calls until the other process ends this one."""
    from torch._inductor import config

    compile_here()
    # Inductor times variants in a first call; their results are not kept, but timed again when nothing else runs.
    settings: Any = config
    settings.autotune_local_cache = False
    known = functools.cache(lambda op: {one.name: one for one in benchmarks_of(workspace.op(op))})
    connection.send(("", False))
    while True:
        call = FirstCall(*connection.recv())
        connection.send(_answer(call, known(call.op), workspace, device))


def _answer(call: FirstCall, known: Mapping[str, Benchmark], workspace: Workspace, device: Device) -> tuple[str, bool]:
    reason = ""
    try:
        case, dtype = Case(call.case, call.sizes), getattr(torch, call.dtype)
        task = Task(call.op, known[call.benchmark], case, dtype, call.method)
        _make(task, call.competitor, workspace, device)
    except Exception as error:
        reason = Failure.of(error).reason
    try:
        release(torch.device(device))
        _synchronize(device)
    except RuntimeError as error:
        return f"it leaves the GPU unusable: {Failure.of(error).reason}", True
    return reason, False


def _make(task: Task, name: str, workspace: Workspace, device: Device) -> None:
    """The first call of a competitor in ``task``, on separate inputs."""
    place = torch.device(device)
    if name == ROOFLINE:
        for way in roofline(task.benchmark.roofline, 64, place, 1).values():
            way()[0]()
        return
    own = implementations(workspace.op(task.op), device, ()) if name == PORT else {}
    (entrant,) = entrants(task.benchmark, own, (name,), without=task.without_libraries)
    if not entrant.absent:
        benchmark = task.benchmark
        arguments = benchmark.arguments(place, task.dtype, task.case)
        if entrant.for_arguments(arguments).absent:
            return
        with repeatable():
            competitor(entrant, [arguments], task.which, benchmark.gradients, benchmark.parameters)()[0]()
    _synchronize(device)


def _synchronize(device: Device) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    own_process.import_from_here()
    root, on, descriptor = sys.argv[1:]
    serve(Connection(int(descriptor)), Workspace.at(Path(root)), "cuda" if on == "cuda" else "cpu")
