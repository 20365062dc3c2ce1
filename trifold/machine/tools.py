"""Compilers, and the debuggers and checkers of trifold's commands."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from trifold.build import toolchain
from trifold.errors import TrifoldError
from trifold.machine.diagnosis import Part

INSTALL_GDB = "apt-get install gdb"
INSTALL_CUDA_GDB = "apt-get install cuda-gdb-13-0 (of your CUDA's version), or set CUDA_HOME to a toolkit that has it"


def gxx() -> Part:
    found = toolchain.find_gxx()
    toolchain.require_gxx(found)
    return Part("g++", "ok", f"{toolchain.dotted(toolchain.gxx_version(found))} at {found}")


def nvcc(answer: dict[str, Any]) -> Part:
    try:
        found = toolchain.find_nvcc()
    except TrifoldError as error:
        if answer.get("gpus") or any(os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")):
            raise
        return Part("nvcc", "absent", error.problem, error.remedy)
    toolchain.require_nvcc(found.path, answer.get("cuda"))
    return Part("nvcc", "ok", f"{toolchain.dotted(toolchain.nvcc_version(found.path))} at {found.path}")


def ninja() -> Part:
    return Part("ninja", "ok", str(toolchain.find_ninja()))


def gdb() -> Part:
    """For `trifold debug --port`."""
    found = shutil.which("gdb")
    if found is None:
        return Part("gdb", "absent", "not on PATH; trifold debug --port needs it", INSTALL_GDB)
    return Part("gdb", "ok", found)


def cuda_gdb(answer: dict[str, Any]) -> Part:
    """For `trifold debug --port` of what runs on the GPU."""
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    folders = [str(home / "bin") for home in homes]
    found = shutil.which("cuda-gdb", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if found is not None:
        return Part("cuda-gdb", "ok", found)
    return _only_with_gpu("cuda-gdb", "not on PATH; it stops in kernels on the GPU", INSTALL_CUDA_GDB, answer)


def compute_sanitizer(answer: dict[str, Any]) -> Part:
    """For the row `findings` of `trifold verify` on a GPU, and for `trifold sanitize --gpu`."""
    from trifold import compute_sanitizer

    try:
        found = compute_sanitizer.find()
        version = compute_sanitizer.version(found)
        return Part("compute-sanitizer", "ok", f"{version} at {found}" if version else str(found))
    except TrifoldError as error:
        says = f"{error.problem}; trifold verify's row findings on a GPU and trifold sanitize --gpu need it"
        return _only_with_gpu("compute-sanitizer", says, error.remedy, answer)


def _only_with_gpu(name: str, found: str, remedy: str, answer: dict[str, Any]) -> Part:
    """Absent; without a GPU, there is nothing to fix."""
    return Part(name, "absent", found, remedy if answer.get("gpus") else "")
