"""What this machine can run, and the exact command for what it lacks.

    diagnosis = examine()        plain data
    render(diagnosis)            for a rich console

Nothing is imported into this process that could break or slow what comes after: torch, Numba and CUDA are asked in
processes of their own, side by side.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import filelock
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trifold.build import cache, toolchain
from trifold.cells import Device, Kind
from trifold.errors import TrifoldError

State = Literal["ok", "absent", "fault"]

# The time that a process which imports torch or Numba may take, in seconds.
PROBE_LIMIT_S = 20.0
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
TORCH = ("torch>=2.11,<2.14", (2, 11), (2, 14))
NUMBA = ("numba>=0.68,<0.69", (0, 68), (0, 69))
NUMBA_CUDA = ("numba-cuda>=0.30,<0.31", (0, 30), (0, 31))
# numba-cuda 0.30 calls what NumPy 2.5 removed.
NUMPY_FOR_NUMBA_CUDA = ("numpy<2.5", (0,), (2, 5))

_TORCH_PROBE = """
import ctypes, json
answer = {"driver": None}
try:
    version = ctypes.c_int()
    if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0:
        answer["driver"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
except OSError:
    pass
try:
    import torch
    answer["torch"], answer["cuda"] = torch.__version__, torch.version.cuda
    answer["gpus"] = [
        [torch.cuda.get_device_name(i), list(torch.cuda.get_device_capability(i))]
        for i in range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    ]
except Exception as error:
    answer["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer))
"""

_NUMBA_PROBE = """
import json
answer = {}
try:
    import numba, numpy
    from numba import cuda
    answer["numba"] = numba.__version__

    @cuda.jit
    def count(x):
        x[cuda.grid(1)] += cuda.grid(1)

    x = numpy.zeros(4)
    count[2, 2](x)
    answer["works"] = x.tolist() == [0, 1, 2, 3]
except Exception as error:
    answer["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Part:
    """One thing that was looked at.

    Attributes:
        name: what it is: ``"g++"``.
        state: ``"ok"``; ``"absent"``, which only some cells miss; ``"fault"``, which should be mended.
        found: its version and place, or what is wrong with it.
        remedy: the command that mends it; empty where there is nothing to mend.
    """

    name: str
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of the matrix, and the names of the parts that keep it from running here."""

    implementation: Kind
    device: Device
    lacks: tuple[str, ...]

    @property
    def runs(self) -> bool:
        return not self.lacks


@dataclass(frozen=True)
class Diagnosis:
    """All that was found; see :func:`examine`."""

    parts: tuple[Part, ...]
    cells: tuple[Cell, ...]

    def __getitem__(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    def to_json(self) -> dict[str, Any]:
        """``parts``: name, state, found, remedy of each. ``cells``: implementation, device, runs, lacks of each."""
        return {
            "parts": [asdict(part) for part in self.parts],
            "cells": [asdict(cell) | {"lacks": list(cell.lacks), "runs": cell.runs} for cell in self.cells],
        }


# The parts that each cell needs.
NEEDS: dict[tuple[Kind, Device], tuple[str, ...]] = {
    ("prototype", "cpu"): ("Python", "torch", "numba", "numba simulator"),
    ("prototype", "cuda"): ("Python", "torch", "numba", "numba-cuda", "GPU"),
    ("port", "cpu"): ("Python", "torch", "g++", "ninja", "cache"),
    ("port", "cuda"): ("Python", "torch", "g++", "nvcc", "ninja", "cache", "GPU"),
}


def examine() -> Diagnosis:
    """Look at everything that the matrix needs. Raises nothing; what cannot be found out is a fault of that part."""
    with ThreadPoolExecutor(2) as pool:
        asked_numba = pool.submit(_ask, _NUMBA_PROBE, {"NUMBA_ENABLE_CUDASIM": "1"})
        torch = _ask(_TORCH_PROBE, {})
        numba = asked_numba.result()
    probes: tuple[tuple[str, Callable[[], Part]], ...] = (
        ("Python", _python),
        ("torch", lambda: _torch(torch)),
        ("numba", lambda: _package("numba", NUMBA)),
        ("numba simulator", lambda: _simulator(numba)),
        ("numba-cuda", lambda: _numba_cuda(bool(torch.get("gpus")))),
        ("GPU", lambda: _gpu(torch)),
        ("g++", _gxx),
        ("nvcc", lambda: _nvcc(torch)),
        ("ninja", _ninja),
        ("cache", _cache),
        ("builds", _builds),
    )
    parts = tuple(_guarded(name, probe) for name, probe in probes)
    usable = {part.name for part in parts if part.state == "ok"}
    cells = tuple(
        Cell(implementation, device, tuple(name for name in needs if name not in usable))
        for (implementation, device), needs in NEEDS.items()
    )
    return Diagnosis(parts, cells)


def render(diagnosis: Diagnosis) -> RenderableType:
    """The parts, the matrix, and then each remedy once."""
    signs = {"ok": Text("ok", "green"), "absent": Text("absent", "yellow"), "fault": Text("fault", "red")}
    parts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for part in diagnosis.parts:
        parts.add_row(part.name, signs[part.state], Text(part.found))
    matrix = Table("cell", "", "for want of", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for cell in diagnosis.cells:
        runs = Text("runs", "green") if cell.runs else Text("does not run", "yellow")
        matrix.add_row(f"{cell.implementation} on {cell.device}", runs, ", ".join(cell.lacks))
    remedies = [Text(f"{part.name}: {part.remedy}") for part in diagnosis.parts if part.remedy]
    mend = [Text(), Text("To mend it", "bold"), *remedies] if remedies else []
    return Group(parts, Text(), matrix, *mend)


def _guarded(name: str, probe: Callable[[], Part]) -> Part:
    try:
        return probe()
    except TrifoldError as error:
        return Part(name, "fault", error.problem, error.remedy)
    except Exception as error:  # whatever a broken machine does, the other parts are still told
        return Part(name, "fault", f"{type(error).__name__}: {error}")


def _ask(script: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run ``script`` in a Python of its own; the JSON object that it prints last, or ``{"error": ...}``."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_LIMIT_S,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        return answer if isinstance(answer, dict) else {"error": "no answer"}
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {PROBE_LIMIT_S:g} s"}
    except (OSError, ValueError, IndexError):
        return {"error": "Python ends without an answer"}


def _python() -> Part:
    found = f"{platform.python_version()} at {sys.executable}"
    if OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return Part("Python", "ok", found)
    return Part(
        "Python", "fault", f"{found}; trifold runs on 3.11 to 3.13", "pip install uv && uv venv --python 3.13 .venv"
    )


def _torch(answer: dict[str, Any]) -> Part:
    if "torch" not in answer:
        part = _package("torch", TORCH)
        return (
            part if part.state != "ok" else Part("torch", "fault", str(answer.get("error")), part.remedy or _pip(TORCH))
        )
    part = _package("torch", TORCH)
    cuda = f"CUDA {answer['cuda']}" if answer["cuda"] else "a CPU build"
    return Part("torch", part.state, f"{part.found}, {cuda}", part.remedy)


def _gpu(answer: dict[str, Any]) -> Part:
    driver, gpus, cuda = answer.get("driver"), answer.get("gpus"), answer.get("cuda")
    if gpus:
        names = ", ".join(f"{name} ({capability[0]}.{capability[1]})" for name, capability in gpus)
        return Part("GPU", "ok", f"{names}; the driver supports CUDA {driver}")
    if driver is None:
        return Part("GPU", "absent", "there is no CUDA driver on this machine")
    seen = f"the driver supports CUDA {driver}"
    if cuda is None:
        return Part("GPU", "fault", f"{seen}, but torch is a CPU build", "pip install --force-reinstall torch")
    if _numbers(driver)[0] < _numbers(cuda)[0]:
        return Part("GPU", "fault", f"{seen}, torch needs {cuda}", _torch_for(driver))
    return Part("GPU", "absent", f"{seen}, but torch sees no device; see nvidia-smi and CUDA_VISIBLE_DEVICES")


def _torch_for(driver: str) -> str:
    # CUDA 12.6 is the oldest that torch 2.11 to 2.13 are published for.
    return (
        f"update the NVIDIA driver (it supports CUDA {driver}), or: "
        "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126"
    )


def _simulator(answer: dict[str, Any]) -> Part:
    if answer.get("works"):
        return Part("numba simulator", "ok", "runs a kernel")
    problem = answer.get("error", "gives a wrong result")
    return Part("numba simulator", "fault", problem, f"pip install --force-reinstall '{NUMBA[0]}'")


def _numba_cuda(has_gpu: bool) -> Part:
    remedy = f"{_pip(NUMBA_CUDA)} '{NUMPY_FOR_NUMBA_CUDA[0]}'"
    part = _package("numba-cuda", NUMBA_CUDA)
    if part.found == "not installed":
        return Part("numba-cuda", "fault" if has_gpu else "absent", part.found, remedy if has_gpu else "")
    if part.state != "ok":
        return Part("numba-cuda", "fault", part.found, remedy)
    numpy = _package("numpy", NUMPY_FOR_NUMBA_CUDA)
    if numpy.state != "ok":
        return Part(
            "numba-cuda", "fault", f"{part.found} fails with NumPy {_version('numpy')}", _pip(NUMPY_FOR_NUMBA_CUDA)
        )
    return part


def _gxx() -> Part:
    gxx = toolchain.find_gxx()
    toolchain.require_gxx(gxx)
    return Part("g++", "ok", f"{toolchain.dotted(toolchain.gxx_version(gxx))} at {gxx}")


def _nvcc(answer: dict[str, Any]) -> Part:
    try:
        nvcc = toolchain.find_nvcc()
    except TrifoldError as error:
        if answer.get("gpus") or any(os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")):
            raise
        return Part("nvcc", "absent", error.problem)
    toolchain.require_nvcc(nvcc.path, answer.get("cuda"))
    return Part("nvcc", "ok", f"{toolchain.dotted(toolchain.nvcc_version(nvcc.path))} at {nvcc.path}")


def _ninja() -> Part:
    return Part("ninja", "ok", str(toolchain.find_ninja()))


def _cache() -> Part:
    folder = cache.cache_folder()
    if not folder.exists():
        parent = next(path for path in folder.parents if path.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            return Part("cache", "fault", f"{folder} cannot be created", "export TRIFOLD_CACHE_DIR=$(mktemp -d)")
        return Part("cache", "ok", f"{folder}, not yet there")
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    cache.builds_folder()
    return Part("cache", "ok", f"{folder}, {size / 2**20:.1f} MiB")


def _builds() -> Part:
    """Locks that are held, and what killed builds have left."""
    folder = cache.cache_folder() / "builds"
    held = [path.stem for path in folder.glob("*.lock") if _is_held(path)]
    left = [path for path in folder.glob("*.partial-*") if path.name.partition(".partial-")[0] not in held]
    if left:
        found = f"{len(left)} left half-way by a process that was killed; they are never loaded"
        return Part("builds", "fault", found, f"rm -r {folder}/*.partial-*")
    return Part("builds", "ok", f"under way: {', '.join(held)}" if held else "none under way")


def _is_held(path: Path) -> bool:
    try:
        with filelock.FileLock(path, timeout=0):
            return False
    except filelock.Timeout:
        return True


def _package(name: str, wanted: tuple[str, tuple[int, ...], tuple[int, ...]]) -> Part:
    """Whether a distribution is installed in a version from the second item of ``wanted`` to below the third."""
    requirement, oldest, beyond = wanted
    version = _version(name)
    if version is None:
        return Part(name, "fault", "not installed", f"pip install '{requirement}'")
    if not oldest <= _numbers(version) < beyond:
        return Part(name, "fault", f"{version}, which trifold does not know", f"pip install '{requirement}'")
    return Part(name, "ok", version)


def _pip(wanted: tuple[str, tuple[int, ...], tuple[int, ...]]) -> str:
    return f"pip install '{wanted[0]}'"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """(2, 13, 0) of "2.13.0+cpu"."""
    return tuple(int(part) for part in version.partition("+")[0].split(".") if part.isdigit())
