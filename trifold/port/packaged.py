"""The operators of a graduated package: one torch namespace for all its ops, and the libraries that implement them.

    package = Package(__name__, folder, namespace, ops)    before the modules ``ports.<op>`` are imported
    package.load()                                         after

The namespace has a hash of the sources in its name, so that two versions live in one process.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .wiring import Library, Operators, bind

_DEVICES = {"cpu": "CPU", "cuda": "CUDA"}


@dataclass(frozen=True)
class Kernels:
    """The library of one op for one device; if there is none, the reason."""

    path: Path | None
    reason: str = ""


class Package:
    """One graduated package in this process.

    Attributes:
        namespace: of its operators in ``torch.ops``.
        kernels: for each op and device (``cpu``, ``cuda``) its library.
    """

    def __init__(self, name: str, folder: Path, namespace: str, ops: Sequence[str]) -> None:
        self.name, self.namespace, self.ops = name, namespace, tuple(ops)
        try:
            self._registry = torch.library.Library(namespace, "DEF")
        except RuntimeError:
            raise ImportError(f"{name}: a package of the same sources is loaded in this process already") from None
        for op in ops:
            bind(f"{name}.ports.{op}", Library(namespace, self._registry))
        self.kernels = {(op, device): _find(folder / "lib", op, device) for op in ops for device in _DEVICES}

    def operators(self, op: str) -> Operators:
        """Those that ``ports/<op>.py`` defines."""
        found: Operators = sys.modules[f"{self.name}.ports.{op}"].op
        return found

    def load(self) -> None:
        """Load the libraries; if one is missing, a call raises an error with the reason.

        Raises:
            ImportError: the system's loader refuses one.
        """
        for (op, device), kernels in self.kernels.items():
            if kernels.path is None:
                refuse = _refusal(f"{self.name}.{op}: {kernels.reason}")
                for operator in self.operators(op).schemas:
                    self._registry.impl(operator, refuse, _DEVICES[device])
                continue
            try:
                torch.ops.load_library(str(kernels.path))
            except OSError as error:
                raise ImportError(
                    f"{self.name} cannot load {kernels.path.name} into torch {torch.__version__}: {error}"
                ) from None

    def __repr__(self) -> str:
        return f"<{self.name} in torch.ops.{self.namespace}>"


def _find(folder: Path, op: str, device: str) -> Kernels:
    if device == "cpu":
        path = folder / f"{op}.cpu.so"
        return Kernels(path) if path.is_file() else Kernels(None, "this op has no kernels for the CPU")
    built = {int(path.suffixes[-2].removeprefix(".cuda")): path for path in folder.glob(f"{op}.cuda*.so")}
    if not built:
        return Kernels(None, "this build has no kernels for CUDA; install one that was built with nvcc")
    if torch.version.cuda is None:
        return Kernels(None, f"torch {torch.__version__} is a build without CUDA")
    major = int(re.split(r"\D", torch.version.cuda)[0])
    if major not in built:
        majors = " and ".join(map(str, sorted(built)))
        return Kernels(None, f"its kernels are for CUDA {majors}, torch is for CUDA {torch.version.cuda}")
    return Kernels(built[major])


def _refusal(message: str) -> Callable[..., Any]:
    def refuse(*args: Any) -> Any:
        raise RuntimeError(message)

    return refuse
