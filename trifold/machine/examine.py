"""Examines everything that the matrix and the commands need: `trifold doctor`.

Nothing is imported into this process that could break or slow it: torch, Numba and CUDA are probed in separate
processes, in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from trifold.errors import TrifoldError
from trifold.machine import builds, gpu, packages, probe, tools
from trifold.machine.cells import NEEDS
from trifold.machine.diagnosis import Cell, Diagnosis, Part


def examine() -> Diagnosis:
    """Examine everything that the matrix needs. Raises nothing; a part that cannot be examined is a fault."""
    with ThreadPoolExecutor(2) as pool:
        asked_numba = pool.submit(probe.ask, probe.NUMBA_PROBE, {"NUMBA_ENABLE_CUDASIM": "1"})
        torch = probe.ask(probe.TORCH_PROBE, {})
        numba = asked_numba.result()
    probes: tuple[tuple[str, Callable[[], Part]], ...] = (
        ("Python", packages.python),
        ("torch", lambda: packages.torch(torch)),
        ("numba", packages.numba),
        ("numba simulator", lambda: packages.simulator(numba)),
        ("numba-cuda", lambda: packages.numba_cuda(bool(torch.get("gpus")))),
        ("GPU", lambda: gpu.gpu(torch)),
        ("g++", tools.gxx),
        ("nvcc", lambda: tools.nvcc(torch)),
        ("ninja", tools.ninja),
        ("gdb", tools.gdb),
        ("cuda-gdb", lambda: tools.cuda_gdb(torch)),
        ("compute-sanitizer", lambda: tools.compute_sanitizer(torch)),
        ("cache", builds.cache_of_builds),
        ("builds", builds.builds),
    )
    parts = tuple(_guarded(name, probe) for name, probe in probes)
    usable = {part.name for part in parts if part.state == "ok"}
    cells = tuple(
        Cell(implementation, device, tuple(name for name in needs if name not in usable))
        for (implementation, device), needs in NEEDS.items()
    )
    return Diagnosis(parts, cells)


def _guarded(name: str, probe: Callable[[], Part]) -> Part:
    try:
        return probe()
    except TrifoldError as error:
        return Part(name, "fault", error.problem, error.remedy)
    except Exception as error:  # whatever fails on a broken machine, the other parts are still reported
        return Part(name, "fault", f"{type(error).__name__}: {error}")
