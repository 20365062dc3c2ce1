"""How many cells run side by side, and in which order they start."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from trifold.build.sources import included_sources
from trifold.cells import CellName
from trifold.machine.cells import Machine
from trifold.verification.job import Job
from trifold.workspace import Workspace

_GPU_MEMORY = 2 * 2**30  # bytes: the contexts of a worker and of its op's processes, and their small tensors


def worker_pool(machine: Machine) -> ThreadPoolExecutor:
    """Threads that call :func:`rows_of_cell`, as many as workers may run side by side: of each core one, and where some
    wait for a GPU, as many again, if its memory has room for them."""
    cores = len(os.sched_getaffinity(0))
    if not machine.cuda:
        cores = min(2 * cores, machine.gpu_memory // _GPU_MEMORY)
    return ThreadPoolExecutor(max_workers=max(2, min(32, cores)))


def in_order(workspace: Workspace, jobs: Iterable[Job], known: Mapping[CellName, float] | None = None) -> list[Job]:
    """In the order in which they are to start: of each device the longest first, and both devices side by side.

    Args:
        workspace, jobs: of the run.
        known: seconds that cells have taken in an earlier run. Others are expected to take what their code says.

    Cells on a GPU wait for it, and the more of them run, the longer: those on the CPU use the cores meanwhile. So each
    device's cells are spread over the whole run, as if they took it all.

    What a cell takes grows with the code: that which a port includes has more kernels. A prototype's takes about the
    same time on a GPU whatever it is; on the CPU, one of another op's length may take five times as long, and so those
    of ports, which are known better, come last. The numbers are of runs of the gallery on an H200, in bytes.
    """

    def expected(job: Job) -> float:
        cell, files = job.cell, workspace.files(job.cell.op)
        if cell.implementation == "prototype":
            sources = max(files.prototype.stat().st_size, files.spec.stat().st_size)
            return 130_000 if cell.device == "cuda" else 90_000 + 2.0 * sources
        included = sum(path.stat().st_size for path in included_sources(files.binding))
        return included * (1.0 if cell.device == "cuda" else 0.4)

    lengths = {job: expected(job) for job in jobs}
    for device in ("cuda", "cpu"):
        measured = {
            job: known[job.cell] for job in lengths if known and job.cell.device == device and job.cell in known
        }
        if measured:
            bytes_per_second = sum(lengths[job] for job in measured) / max(1.0, sum(measured.values()))
            lengths |= {job: bytes_per_second * seconds for job, seconds in measured.items()}
    begins: dict[Job, float] = {}  # which part of its device's time is over when a job begins
    for device in ("cuda", "cpu"):
        of_device = sorted((job for job in lengths if job.cell.device == device), key=lambda job: -lengths[job])
        total = sum(lengths[job] for job in of_device) or 1.0  # 0 where an earlier run took no measurable time
        before = itertools.accumulate((lengths[job] for job in of_device), initial=0.0)
        begins |= {job: time_before / total for job, time_before in zip(of_device, before, strict=False)}
    return sorted(lengths, key=begins.__getitem__)
