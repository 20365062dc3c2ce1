"""Whether ports built for the CPU use their plain kernels, or those for a GPU.

The environment variable TRIFOLD_PATHS sets it for a process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from trifold.errors import LaunchError

PATHS = "TRIFOLD_PATHS"


def gpu_paths(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether ports that are built for the CPU choose among their kernels as on a GPU.

    Raises:
        LaunchError: TRIFOLD_PATHS is neither ``cpu``, which is the default, nor ``gpu``.
    """
    paths = environment.get(PATHS) or "cpu"
    if paths not in ("cpu", "gpu"):
        raise LaunchError(f"{PATHS} is '{paths}'", "set it to cpu or gpu")
    return paths == "gpu"
