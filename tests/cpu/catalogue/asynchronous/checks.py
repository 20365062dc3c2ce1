"""The findings of the CPU checks in the kernels of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.cpu.catalogue.asynchronous.kernels import Kernel
from tests.cpu.catalogue.asynchronous.pair import Pair, qualified, write_kernels
from tests.cpu.catalogue.checked import findings_in, op_in
from tests.cpu.catalogue.launcher import CpuKernel, Start
from trifold.cpu import runtime
from trifold.findings import Finding
from trifold.workspace import OpFiles

SEEDS = range(20)


def op_of_pairs(root: Path, right: Iterable[Kernel], wrong: Iterable[Pair]) -> OpFiles:
    """The op that starts these kernels, in ``root``."""
    with tempfile.TemporaryDirectory() as folder:
        write_kernels(Path(folder), right, wrong)
        return op_in(root, Path(folder))


def cpu_kernel(start: Start, subject: Kernel | Pair) -> CpuKernel:
    """For a pair, the wrong twin."""
    return CpuKernel(start, subject.qualified if isinstance(subject, Pair) else qualified(subject), _nothing)


def findings(start: Start, subject: Kernel | Pair, seed: int) -> list[Finding]:
    """The findings under one schedule.

    Raises:
        AssertionError: a right kernel's result is wrong.
    """
    if isinstance(subject, Kernel):
        return findings_in(subject, cpu_kernel(start, subject), runtime.schedules(1, seed=seed))
    try:
        return findings_in(subject.right, cpu_kernel(start, subject), runtime.schedules(1, seed=seed))
    except AssertionError:  # nothing was found, but the result is wrong
        return []


def _nothing(*_: Any) -> tuple[int, ...]:
    return ()
