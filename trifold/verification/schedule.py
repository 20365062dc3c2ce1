"""How many cells run in parallel, and in which order they start."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from trifold.build.sources import included_sources
from trifold.cells import CellName
from trifold.machine.cells import Machine
from trifold.verification.job import Job
from trifold.workspace import Workspace

_NICEST = 10  # of the shortest cells
# The part of a run in which cells on a GPU begin. They are the longer ones: short cells of the CPU fill its end.
_GPU_PART = 0.75
_GPU_MEMORY = 2 * 2**30  # bytes: the contexts of a worker and of its op's processes, and their small tensors


def worker_pool(machine: Machine) -> ThreadPoolExecutor:
    """The number of threads that call :func:`rows_of_cell`, one per parallel worker: one for each core and, if some
    wait for a GPU at times, a quarter more, if its memory has room for them. More would not use the cores better, and
    slow down the longest cells, for which the others then wait at the end."""
    workers = len(os.sched_getaffinity(0))
    if not machine.cuda:
        workers = min(workers + workers // 4, machine.gpu_memory // _GPU_MEMORY)
    return ThreadPoolExecutor(max_workers=max(2, min(32, workers)))


def in_order(
    workspace: Workspace,
    jobs: Iterable[Job],
    known: Mapping[CellName, float] | None = None,
    *,
    with_priorities: bool = False,
) -> list[Job]:
    """The jobs in the order in which to start them: of each device the longest first, and both devices in parallel.

    Args:
        workspace, jobs: of the run.
        known: seconds that cells took in an earlier run. Others are estimated from the size of their code.
        with_priorities: give the longer ones priority for cores (``Job.nice``), for runs with more workers than cores:
            the others would wait for the longest at the end.

    Cells on a GPU wait for it, and for longer the more of them run, while those on the CPU use the cores. So both
    devices' cells run side by side for most of the run.
    """
    lengths = _lengths(workspace, jobs, known)
    begins: dict[Job, float] = {}  # the fraction of the run that has passed when a job begins
    for device, part in (("cuda", _GPU_PART), ("cpu", 1.0)):
        of_device = sorted((job for job in lengths if job.cell.device == device), key=lambda job: -lengths[job])
        total = sum(lengths[job] for job in of_device) or 1.0  # 0 if an earlier run took no measurable time
        before = itertools.accumulate((lengths[job] for job in of_device), initial=0.0)
        begins |= {job: part * time_before / total for job, time_before in zip(of_device, before, strict=False)}
    ordered = sorted(lengths, key=begins.__getitem__)
    if not with_priorities:
        return ordered
    longest = max(lengths.values(), default=0.0) or 1.0
    return [replace(job, nice=round(_NICEST * (1.0 - lengths[job] / longest))) for job in ordered]


def _lengths(workspace: Workspace, jobs: Iterable[Job], known: Mapping[CellName, float] | None) -> dict[Job, float]:
    """How long each job takes: exactly in relation to those of the same device, roughly to the others.

    The estimate of a port grows with the code that it includes, which has more kernels; on a GPU, that of both kinds
    grows with the spec, which describes the calls. On the CPU, prototypes of equal length may differ by a factor of
    five, so ports, whose estimates are better, come after them. The constants, in bytes, are from runs of the gallery
    on an H200.
    """

    def expected(job: Job) -> float:
        cell, files = job.cell, workspace.files(job.cell.op)
        spec = files.spec.stat().st_size
        if cell.implementation == "prototype":
            sources = max(files.prototype.stat().st_size, spec)
            return 110_000 + 4.0 * spec if cell.device == "cuda" else 90_000 + 2.0 * sources
        included = sum(path.stat().st_size for path in included_sources(files.binding))
        return included + 4.0 * spec if cell.device == "cuda" else 0.4 * included

    lengths = {job: expected(job) for job in jobs}
    for device in ("cuda", "cpu"):
        measured = {
            job: known[job.cell] for job in lengths if known and job.cell.device == device and job.cell in known
        }
        if measured:
            bytes_per_second = sum(lengths[job] for job in measured) / max(1.0, sum(measured.values()))
            lengths |= {job: bytes_per_second * seconds for job, seconds in measured.items()}
    return lengths
