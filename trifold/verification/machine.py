"""Which cells this machine can run."""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass

from trifold.verification.job import CellName

_DEFAULT_ARCH = "9.0"


@dataclass(frozen=True)
class Machine:
    """What decides where a cell can run.

    Attributes:
        device_name: the GPU's name, or ``cpu``.
        cuda: why there is no CUDA device for torch; empty where there is one.
        nvcc_archs: the architectures that nvcc compiles for; none without nvcc.
    """

    device_name: str
    cuda: str
    nvcc_archs: tuple[str, ...]

    @classmethod
    def here(cls) -> Machine:
        import torch

        if torch.cuda.is_available():
            reason, name = "", torch.cuda.get_device_name()
        elif torch.version.cuda is None:
            reason, name = "torch is a CPU build", "cpu"
        else:
            reason, name = "torch finds no CUDA device", "cpu"
        listed = os.environ.get("TORCH_CUDA_ARCH_LIST", _DEFAULT_ARCH).replace(";", " ").replace("+PTX", "").split()
        return cls(name, reason, tuple(listed) if _find_nvcc() else ())

    def lacks(self, cell: CellName) -> str:
        """Why ``cell`` cannot run here; empty where it can."""
        if cell.device == "cuda" and self.cuda:
            return self.cuda
        if cell.device == "cuda" and cell.implementation == "prototype" and not _has_numba_cuda():
            return "numba-cuda is not installed: pip install 'trifold[cuda]'"
        if cell.device == "cuda" and cell.implementation == "port" and not self.nvcc_archs:
            return "nvcc is not found: install the CUDA Toolkit, or set CUDA_HOME"
        return ""


def _find_nvcc() -> bool:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    return shutil.which("nvcc") is not None or os.access(os.path.join(home, "bin", "nvcc"), os.X_OK)


def _has_numba_cuda() -> bool:
    return importlib.util.find_spec("numba_cuda") is not None
