"""The cells that this machine can run."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass

from trifold.build.toolchain import find_nvcc
from trifold.cells import CellName, Device, ImplementationKind
from trifold.errors import ToolchainError
from trifold.machine import packages

_DEFAULT_ARCH = "9.0"

# The parts that each cell needs, see :mod:`trifold.machine.examine`.
NEEDS: dict[tuple[ImplementationKind, Device], tuple[str, ...]] = {
    ("prototype", "cpu"): ("Python", "torch", "numba", "numba simulator"),
    ("prototype", "cuda"): ("Python", "torch", "numba", "numba-cuda", "GPU"),
    ("port", "cpu"): ("Python", "torch", "g++", "ninja", "cache"),
    ("port", "cuda"): ("Python", "torch", "g++", "nvcc", "ninja", "cache", "GPU"),
}


@dataclass(frozen=True)
class Machine:
    """The properties of a machine that decide which cells it can run.

    Attributes:
        device_name: the GPU's name, or ``cpu``.
        cuda: why torch has no CUDA device; empty if it has one.
        nvcc_archs: the architectures that nvcc compiles for; none without nvcc.
        gpu_memory: bytes; 0 without a CUDA device.
    """

    device_name: str
    cuda: str
    nvcc_archs: tuple[str, ...]
    gpu_memory: int = 0

    @classmethod
    def here(cls) -> Machine:
        import torch

        if torch.cuda.is_available():
            properties = torch.cuda.get_device_properties()
            reason, name, memory = "", properties.name, properties.total_memory
        elif torch.version.cuda is None:
            reason, name, memory = "torch is a CPU build", "cpu", 0
        else:
            reason, name, memory = "torch finds no CUDA device", "cpu", 0
        listed = os.environ.get("TORCH_CUDA_ARCH_LIST", _DEFAULT_ARCH).replace(";", " ").replace("+PTX", "").split()
        return cls(name, reason, tuple(listed) if _has_nvcc() else (), memory)

    def lacks(self, cell: CellName) -> str:
        """Why ``cell`` cannot run here; empty if it can."""
        if cell.device == "cuda" and self.cuda:
            return self.cuda
        if cell.device == "cuda" and cell.implementation == "prototype" and not _has_numba_cuda():
            return f"numba-cuda is not installed: {packages.INSTALL_NUMBA_CUDA}"
        if cell.device == "cuda" and cell.implementation == "port" and not self.nvcc_archs:
            return "nvcc is not found: install the CUDA Toolkit, or set CUDA_HOME"
        return ""


def _has_nvcc() -> bool:
    try:
        find_nvcc()
    except ToolchainError:
        return False
    return True


def _has_numba_cuda() -> bool:
    return importlib.util.find_spec("numba_cuda") is not None
