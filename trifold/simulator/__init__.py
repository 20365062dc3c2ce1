"""The simulator: Numba CUDA kernels on the CPU, with the GPU's arithmetic, and checks.

    python -m trifold.simulator [--checks all|none|LIST] [--seed N] [--schedules N] [--report F.json] script.py …
    pytest --simulator …
    TRIFOLD_SIMULATOR=1 python script.py

    trifold.simulator.install()                  before numba is imported, in your own program
    with trifold.simulator.options(seed=7): …    launches within it run in another order

Importing this module imports neither numba nor torch.
"""

from __future__ import annotations

from trifold.simulator.settings import OptionError, Options, current, options
from trifold.simulator.startup import activate, install, uninstall
from trifold.simulator.writes import record_writes, written

__all__ = [
    "OptionError",
    "Options",
    "activate",
    "current",
    "install",
    "options",
    "record_writes",
    "uninstall",
    "written",
]
