"""C++ kernels on the CPU: calls of a port that was built with checks, and kernels of ordinary CUDA text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trifold.host.raw_kernel import RawKernel as RawKernel

__all__ = ["RawKernel"]


def __getattr__(name: str) -> object:
    # Not imported at once: what builds ports needs this package, and is needed by RawKernel.
    if name == "RawKernel":
        from trifold.host.raw_kernel import RawKernel

        return RawKernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
