"""The limits of GPUs for launches, by compute capability, and the errors for launches that exceed them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from trifold.errors import LaunchError

KIB = 1024
STATIC_SHARED = 48 * KIB  # a larger one needs cuFuncSetAttribute, which neither Numba nor numba-cuda calls

# The environment variable with the GPU whose limits apply to launches on the CPU.
COMPUTE_CAPABILITY = "TRIFOLD_COMPUTE_CAPABILITY"
_DEFAULT_CAPABILITY = "9.0"

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Limits:
    """A GPU's limits. Source: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability"; the
    number of multiprocessors is that of the largest GPU of the kind, from its white paper."""

    multiprocessors: int
    threads: int  # resident per multiprocessor
    blocks: int  # resident per multiprocessor
    shared: int  # KiB per multiprocessor
    block_shared: int  # KiB per block

    threads_per_block = 1024
    block_dim = (1024, 1024, 64)
    grid_dim = (2**31 - 1, 65535, 65535)

    @cached_property
    def for_engine(self) -> tuple[int, ...]:
        """In the form for ``_simulator.launch``."""
        return (
            STATIC_SHARED,
            self.block_shared * KIB,
            self.multiprocessors,
            self.threads,
            self.blocks,
            self.shared * KIB,
        )


LIMITS = {
    "7.0": Limits(80, 2048, 32, 96, 96),  # V100
    "7.2": Limits(8, 2048, 32, 96, 96),  # Jetson AGX Xavier
    "7.5": Limits(72, 1024, 16, 64, 64),  # Quadro RTX 8000
    "8.0": Limits(108, 2048, 32, 164, 163),  # A100
    "8.6": Limits(84, 1536, 16, 100, 99),  # A40
    "8.7": Limits(16, 1536, 16, 164, 163),  # Jetson AGX Orin
    "8.9": Limits(142, 1536, 24, 100, 99),  # L40
    "9.0": Limits(132, 2048, 32, 228, 227),  # H100, H200
    "10.0": Limits(148, 2048, 32, 228, 227),  # B200
    "10.3": Limits(160, 2048, 32, 228, 227),  # B300
    "11.0": Limits(20, 1536, 24, 228, 227),  # Jetson T5000
    "12.0": Limits(188, 1536, 24, 100, 99),  # RTX PRO 6000
    "12.1": Limits(48, 1536, 24, 100, 99),  # GB10
}


def limits_of(capability: str | None = None) -> tuple[str | int, ...]:
    """A compute capability by its name (``"9.0"`` or ``"sm_90"``), and its limits in the engine's form.

    Args:
        capability: default: from the environment, else 9.0.

    Raises:
        LaunchError: it is unknown.
    """
    name = capability_name(capability)
    return name, *LIMITS[name].for_engine


def capability_name(capability: str | None = None) -> str:
    """A compute capability by its name with a dot. Arguments and errors as for :func:`limits_of`."""
    name = capability = capability or os.environ.get(COMPUTE_CAPABILITY) or _DEFAULT_CAPABILITY
    if name.startswith("sm_") and name[3:].isdigit():
        name = f"{name[3:-1]}.{name[-1]}"
    if name not in LIMITS:
        raise LaunchError(f"compute capability '{capability}' is not known", f"give one of {', '.join(LIMITS)}")
    return name


def cooperative_blocks(capability: str, block: int | Sequence[int], dynamic_shared: int = 0) -> int:
    """The most blocks of this shape in a cooperative launch: those that are resident at once.

    As for a launch, shared memory that the kernel itself declares is not counted: it is only known when it runs.
    """
    limits = LIMITS[capability]
    warps = -(-math.prod(block if isinstance(block, Sequence) else (block,)) // 32)
    fitting = min(limits.blocks, limits.threads // (32 * warps), limits.shared * KIB // (dynamic_shared + KIB))
    return limits.multiprocessors * fitting


def check_launch(kernel: str, capability: str, grid: Dim3, block: Dim3, dynamic_shared: int) -> None:
    """Check that the GPU can start this launch.

    Raises:
        LaunchError: it cannot; the message names the kernel, the limit and the remedy.
    """
    limits = LIMITS[capability]
    gpu = f"compute capability {capability}"
    _check_extents(kernel, "grid", "blocks", grid, limits.grid_dim, gpu)
    _check_extents(kernel, "block", "threads", block, limits.block_dim, gpu)
    threads = block[0] * block[1] * block[2]
    if threads > limits.threads_per_block:
        raise LaunchError(
            f"{kernel}: a block of {_shape(block)} is {threads:,} threads; {gpu} has at most "
            f"{limits.threads_per_block:,}",
            "take smaller blocks, and more of them",
        )
    if dynamic_shared < 0:
        raise LaunchError(
            f"{kernel}: {dynamic_shared} bytes of dynamic shared memory", "give 0 or more as the fourth of [...]"
        )
    if dynamic_shared > limits.block_shared * KIB:
        raise LaunchError(
            f"{kernel}: {dynamic_shared:,} bytes of dynamic shared memory; {gpu} has at most "
            f"{limits.block_shared * KIB:,} a block",
            "use smaller tiles, or set compute_capability to the GPU that you mean",
        )


def _check_extents(kernel: str, name: str, unit: str, given: Dim3, most: Dim3, gpu: str) -> None:
    for axis, extent, limit in zip("xyz", given, most, strict=True):
        if extent < 1:
            raise LaunchError(
                f"{kernel}: {name} is {_shape(given)}: {extent} {unit} in {axis}",
                f"launch at least one; skip the launch where there is nothing to do: if n > 0: {kernel}[...](...)",
            )
        if extent > limit:
            raise LaunchError(
                f"{kernel}: {name} is {_shape(given)}; {gpu} has at most {limit:,} {unit} in {axis}",
                f"put the {unit} into another axis, or let each thread do more (a grid-stride loop)",
            )


def _shape(extents: Dim3) -> str:
    return f"({', '.join(map(str, extents))})"
