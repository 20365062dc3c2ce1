"""Builds many ports at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from trifold.build import cache
from trifold.build.compile import build
from trifold.build.library import BuiltLibrary
from trifold.cells import Device
from trifold.errors import TrifoldError
from trifold.workspace import OpFiles


@dataclass(frozen=True)
class BuildRequest:
    """The arguments of one :func:`trifold.build.build`."""

    files: OpFiles
    device: Device
    namespace: str


Outcome = BuiltLibrary | TrifoldError


def build_all(
    requests: Iterable[BuildRequest],
    *,
    progress: Callable[[BuildRequest, Outcome], None] = lambda request, outcome: None,
    workers: int | None = None,
    notify: Callable[[str], None] = cache.tell_on_stderr,
) -> dict[BuildRequest, Outcome]:
    """Build all ``requests`` in separate processes, as many at a time as there are CPUs.

    Args:
        requests: what to build; equal ones are built once.
        progress: called in this thread for each one when it is done.
        workers: how many at a time.
        notify: as for ``build``.

    Returns:
        For each request in order the library, or the error that ``build`` raised: one op's error does not stop the
        others.
    """
    wanted = list(dict.fromkeys(requests))
    outcomes: dict[BuildRequest, Outcome] = {}
    # A thread only waits for its compilers, which are processes.
    with ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)), "trifold-build") as pool:
        running = {pool.submit(_build, request, notify): request for request in wanted}
        try:
            for future in as_completed(running):
                outcomes[running[future]] = future.result()
                progress(running[future], future.result())
        except BaseException:  # on an interrupt, builds that have not begun are cancelled
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {request: outcomes[request] for request in wanted}


def _build(request: BuildRequest, notify: Callable[[str], None]) -> Outcome:
    try:
        return build(request.files, request.device, request.namespace, notify=notify)
    except TrifoldError as error:
        return error
