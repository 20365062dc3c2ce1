"""A kernel of the catalogue on a GPU, launched like its twin on the CPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.cpu.catalogue.launcher import Array, copies, three, value_of
from trifold.build.sources import INCLUDE_ROOT

FOLDER = Path(__file__).parent


def compile_with_nvcc(source: Path, into: Path, *options: str) -> None:
    """Compile without fused multiplies and adds, so that each operation is rounded once, as by g++."""
    nvcc = shutil.which("nvcc")
    assert nvcc is not None
    options = ("-std=c++20", "-O3", "-arch=native", "--fmad=false", "--expt-relaxed-constexpr", "-lineinfo", *options)
    command = [nvcc, *options, f"-I{INCLUDE_ROOT}", str(source), "-o", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def build(folder: Path, sources: Path = FOLDER) -> ctypes.CDLL:
    """The kernels whose entries.cuh is in the folder ``sources``, compiled by nvcc in ``folder``."""
    library = folder / "catalogue_gpu.so"
    # The list of kernels is a static variable of an inline function: by default, two such libraries in a process share
    # it.
    compile_with_nvcc(sources / "gpu.cu", library, "-shared", "-Xcompiler=-fPIC,-fno-gnu-unique")
    loaded = ctypes.CDLL(str(library))
    loaded.catalogue_start.restype = ctypes.c_char_p
    return loaded


@dataclass
class GpuKernel:
    """One kernel, launched like Numba's; its arrays are copied to the GPU and back.

    Attributes:
        library: of :func:`build`.
        name: the kernel's, with its namespace; several, separated by spaces, are launched one after the other.
        more: computes further arguments after the prototype's, from these.
        results: copies of the array arguments after the last launch.
    """

    library: ctypes.CDLL
    name: str
    more: Callable[..., tuple[int, ...]]
    results: list[Array] = field(default_factory=list)

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[..., None]:
        grid, block, *rest = configuration
        shape = [*three(grid), *three(block), rest[1] if len(rest) > 1 else 0]

        def launch(*arguments: Any) -> None:
            values = [value_of(argument) for argument in arguments]
            everything = [*values, *self.more(*values)]
            memory = Copies([value for value in everything if isinstance(value, np.ndarray)])
            words = [memory.address(v) if isinstance(v, np.ndarray) else int(v) for v in everything]
            reals = [0.0 if isinstance(v, np.ndarray) else float(v) for v in everything]
            problem = self.library.catalogue_start(
                self.name.encode(),
                (ctypes.c_int64 * 7)(*shape),
                (ctypes.c_int64 * len(words))(*words),
                (ctypes.c_double * len(reals))(*reals),
                len(words),
            )
            assert problem == b"", problem.decode()
            memory.copy_back()
            self.results = copies(values)

        return launch


class Copies:
    """The memory of arrays on the GPU; arrays that overlap share memory there."""

    def __init__(self, arrays: list[Array]) -> None:
        bounds = sorted(np.lib.array_utils.byte_bounds(array) for array in arrays if array.size > 0)
        self._parts: list[tuple[int, NDArray[np.uint8], Tensor]] = []
        while bounds:
            first, end = bounds.pop(0)
            while bounds and bounds[0][0] < end:
                end = max(end, bounds.pop(0)[1])
            host = np.ctypeslib.as_array((ctypes.c_uint8 * (end - first)).from_address(first))
            # A separate allocation begins at a multiple of 512 bytes; the array has the same address modulo 16 as here.
            device = torch.empty(end - first + 16, dtype=torch.uint8, device="cuda")[first % 16 :][: end - first]
            device.copy_(torch.from_numpy(host.copy()))
            self._parts.append((first, host, device))

    def address(self, array: Array) -> int:
        for first, host, device in self._parts:
            if 0 <= array.ctypes.data - first < host.size:
                return device.data_ptr() + array.ctypes.data - first
        return 0

    def copy_back(self) -> None:
        for _, host, device in self._parts:
            host[:] = device.cpu().numpy()
