"""``__launch_bounds__`` of kernels whose blocks have a known largest number of threads in all launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trifold.draft import cpp
from trifold.draft import host_values as v

_OF_ANY_BLOCK = 1024  # what the compiler assumes of a kernel without bounds


@dataclass
class LaunchBounds:
    """The most threads that a block of ``kernel`` has, in the launches that were added."""

    kernel: cpp.Function
    threads: int = 0

    def add(self, block: Sequence[v.Number]) -> None:
        """Add a launch with these extents of a block."""
        most = [_OF_ANY_BLOCK if each.interval is None else each.interval[1] for each in block]
        self.threads = max(self.threads, math.prod(most))

    def qualify(self) -> None:
        """Below the most threads that hardware allows, ptxas may give each of them more registers."""
        if self.threads < _OF_ANY_BLOCK:
            self.kernel.result = f"void __launch_bounds__({self.threads})"
