"""The engine in the op's process: calls with checks, what they find, and which bytes the kernels write."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trifold.acceptance import configured_suppressions
from trifold.build.sources import included_sources, own_sources
from trifold.cells import ImplementationKind
from trifold.findings import collect
from trifold.implementation import Implementation, load_checked_port
from trifold.workspace import OpFiles, Workspace

from .tensors import Json

# The forms of a port with checks: with the kernels that the CPU uses, and with those that a GPU uses.
CHECKED_FORMS = ("checked", "gpu paths")


class Checking:
    """Runs calls of an op with all checks: a prototype in the simulator, a port in a checked build."""

    def __init__(self, workspace: Workspace, files: OpFiles, kind: ImplementationKind) -> None:
        self._files, self._simulated = files, kind == "prototype"
        self._suppressions = configured_suppressions(workspace.root)

    def load(self, form: str) -> Implementation:
        """The port in one of :data:`CHECKED_FORMS`. Comments in all files that it includes can accept findings."""
        from trifold.cpu import runtime

        runtime.accept(included_sources(self._files.binding), self._suppressions)
        return load_checked_port(self._files, gpu_paths=True if form == "gpu paths" else None)

    @contextlib.contextmanager
    def watching(self, schedules: tuple[int, int] | None, *, native: bool = False) -> Iterator[list[Any]]:
        """Launches within the context run with all checks; yields the list of findings.

        Args:
            schedules: the seed of the first schedule and the number of schedules; None: launches run without checks.
            native: run a prototype's kernels as native code, or raise.
        """
        if schedules is None:
            with self._native() if native else contextlib.nullcontext():
                yield []
            return
        seed, count = schedules
        options: contextlib.AbstractContextManager[Any]
        watched: Callable[[], contextlib.AbstractContextManager[Any]]
        if self._simulated:
            from trifold import simulator
            from trifold.simulator import fresh

            options = simulator.options(
                checks="all", lint=True, seed=seed, schedules=count, suppressions=self._suppressions or ""
            )
            watched = fresh.watched
        else:
            from trifold.cpu import runtime

            options, watched = runtime.schedules(count, seed=seed), runtime.fresh_memory().watched
        # Tensors that ports/<op>.py allocates are uninitialised as well.
        with options, watched(), collect() as found:
            yield found

    @contextlib.contextmanager
    def _native(self) -> Iterator[None]:
        from trifold import simulator
        from trifold.simulator.compiled import fallbacks

        with simulator.options(compiled=True, checks="none"), fallbacks.refused():
            yield

    def in_reply(self, found: list[Any]) -> Json:
        """The findings, and the comments that allow findings of the kernels that ran, as a part of a reply.

        For a port these are only the comments in its own sources: trifold's headers have code that few ops use.
        """
        if self._simulated:
            from trifold.simulator.settings import accepted
        else:
            from trifold.cpu.runtime import accepted
        allowed = [each for each in accepted.used.values() if each.line]
        if not self._simulated:
            allowed = [each for each in allowed if each.file in self._own_sources]
        return {"findings": [finding.to_json() for finding in found], "allowed": [asdict(each) for each in allowed]}

    @functools.cached_property
    def _own_sources(self) -> frozenset[str]:
        """The paths of the op's own sources. Read once: a run whose sources change fails in any case."""
        return frozenset(str(path) for path in own_sources(self._files.binding))

    def record(self, library: Path | None) -> None:
        """Record which memory the op's kernels write, until another call is recorded; for a port those of
        ``library``."""
        if self._simulated:
            from trifold import simulator

            simulator.record_writes(True)
        else:
            from trifold.cpu import runtime

            runtime.record_writes(True, library)

    def launches_told_to(self, observer: Callable[[list[Any]], object]) -> contextlib.AbstractContextManager[None]:
        """Within the context, ``observer`` is called before each launch of a prototype, with the launch's arrays."""
        if not self._simulated:
            return contextlib.nullcontext()
        from trifold.simulator import launch

        return launch.told_to(observer)

    def written(self, owner: Tensor) -> Tensor:
        """For each byte of a tensor's memory, whether a kernel of the op was the last to write it."""
        storage = owner.untyped_storage()
        if storage.nbytes() == 0:
            return torch.empty(0, dtype=torch.uint8)
        written: Callable[[int, int], bytes]
        if self._simulated:
            from trifold.simulator import written
        else:
            from trifold.cpu.runtime import written
        return torch.frombuffer(bytearray(written(storage.data_ptr(), storage.nbytes())), dtype=torch.uint8)
