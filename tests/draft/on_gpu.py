"""Compiles the drafts of modules with nvcc, and launches them on a GPU with copies of arrays of the CPU."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from tests.cpu.catalogue.gpu import Copies, compile_with_nvcc

_LAUNCH = """
extern "C" const char* launched(const unsigned* grid, const unsigned* block, size_t shared, bool cooperative, int which,
                                const unsigned char* slots) {
  void* arguments[] = {&which, &slots};
  const dim3 blocks(grid[0], grid[1], grid[2]), threads(block[0], block[1], block[2]);
  const auto* kernel = reinterpret_cast<const void*>(any_of);
  cudaError_t status = cooperative ? cudaLaunchCooperativeKernel(kernel, blocks, threads, arguments, shared, nullptr)
                                   : cudaLaunchKernel(kernel, blocks, threads, arguments, shared, nullptr);
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}
"""


class LaunchError(RuntimeError):
    """The GPU refused a launch, or its kernel failed."""


class OnGpu:
    """A text with the kernel ``any_of`` (tests/draft/running.py), compiled in ``folder``."""

    def __init__(self, text: str, folder: Path) -> None:
        source, library = folder / "drafts.cu", folder / "drafts.so"
        source.write_text(text + _LAUNCH, encoding="utf-8")
        compile_with_nvcc(source, library, "-shared", "-Xcompiler=-fPIC", "-w")
        self._launched = ctypes.CDLL(str(library)).launched
        self._launched.restype = ctypes.c_char_p

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        which: int,
        slots: np.ndarray,
        arrays: dict[int, np.ndarray],
        shared: int,
        cooperative: bool,
    ) -> None:
        """``arrays`` of the CPU, by the offset of their address in ``slots``; they have the results afterwards.

        Raises ``LaunchError`` with CUDA's words.
        """
        memory = Copies(list(arrays.values()))
        there = slots.copy()
        for offset, array in arrays.items():
            there[offset : offset + 8] = np.frombuffer(np.uint64(memory.address(array)).tobytes(), np.uint8)
        of_slots = Copies([there])
        extents = [(ctypes.c_uint * 3)(*extent, *[1] * (3 - len(extent))) for extent in (grid, block)]
        address = ctypes.c_void_p(of_slots.address(there))
        problem = self._launched(*extents, ctypes.c_size_t(shared), cooperative, which, address)
        if problem is not None:
            raise LaunchError(problem.decode())
        memory.copy_back()
