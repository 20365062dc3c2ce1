"""C++ kernels on the CPU: calls of a port that was built with checks, and kernels of ordinary CUDA text."""

from __future__ import annotations

from trifold.cpu.raw_kernel import RawKernel

__all__ = ["RawKernel"]
