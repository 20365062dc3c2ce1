"""Python and its packages: the installed versions, and combinations that are known to fail."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import Any

from trifold.machine.diagnosis import Part

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
TORCH = ("torch>=2.11,<2.14", (2, 11), (2, 14))
NUMBA = ("numba>=0.68,<0.69", (0, 68), (0, 69))
NUMBA_CUDA = ("numba-cuda>=0.30,<0.31", (0, 30), (0, 31))
# numba-cuda 0.30 calls what NumPy 2.5 removed.
NUMPY_FOR_NUMBA_CUDA = ("numpy<2.5", (0,), (2, 5))
INSTALL_NUMBA = f"pip install '{NUMBA[0]}'"
INSTALL_NUMBA_CUDA = f"pip install '{NUMBA_CUDA[0]}' '{NUMPY_FOR_NUMBA_CUDA[0]}'"


def python() -> Part:
    found = f"{platform.python_version()} at {sys.executable}"
    if OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return Part("Python", "ok", found)
    return Part(
        "Python", "fault", f"{found}; trifold runs on 3.11 to 3.13", "pip install uv && uv venv --python 3.13 .venv"
    )


def torch(answer: dict[str, Any]) -> Part:
    if "torch" not in answer:
        part = _package("torch", TORCH)
        return (
            part if part.state != "ok" else Part("torch", "fault", str(answer.get("error")), part.remedy or _pip(TORCH))
        )
    part = _package("torch", TORCH)
    cuda = f"CUDA {answer['cuda']}" if answer["cuda"] else "a CPU build"
    return Part("torch", part.state, f"{part.found}, {cuda}", part.remedy)


def simulator(answer: dict[str, Any]) -> Part:
    if answer.get("works"):
        return Part("numba simulator", "ok", "runs a kernel")
    problem = answer.get("error", "gives a wrong result")
    return Part("numba simulator", "fault", problem, f"pip install --force-reinstall '{NUMBA[0]}'")


def numba_cuda(has_gpu: bool) -> Part:
    part = _package("numba-cuda", NUMBA_CUDA)
    if part.found == "not installed":
        return Part("numba-cuda", "fault" if has_gpu else "absent", part.found, INSTALL_NUMBA_CUDA if has_gpu else "")
    if part.state != "ok":
        return Part("numba-cuda", "fault", part.found, INSTALL_NUMBA_CUDA)
    numpy = _package("numpy", NUMPY_FOR_NUMBA_CUDA)
    if numpy.state != "ok":
        return Part(
            "numba-cuda",
            "fault",
            f"{part.found} fails with NumPy {installed_version('numpy')}",
            _pip(NUMPY_FOR_NUMBA_CUDA),
        )
    return part


def numba() -> Part:
    return _package("numba", NUMBA)


def _package(name: str, wanted: tuple[str, tuple[int, ...], tuple[int, ...]]) -> Part:
    """Whether the installed version of a distribution is from the second item of ``wanted`` to below the third."""
    requirement, oldest, beyond = wanted
    version = installed_version(name)
    if version is None:
        return Part(name, "fault", "not installed", f"pip install '{requirement}'")
    if not oldest <= numbers(version) < beyond:
        return Part(name, "fault", f"{version}, which trifold does not know", f"pip install '{requirement}'")
    return Part(name, "ok", version)


def _pip(wanted: tuple[str, tuple[int, ...], tuple[int, ...]]) -> str:
    return f"pip install '{wanted[0]}'"


def installed_version(name: str) -> str | None:
    """The version of an installed distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """(2, 13, 0) of "2.13.0+cpu"."""
    return tuple(int(part) for part in version.partition("+")[0].split(".") if part.isdigit())
