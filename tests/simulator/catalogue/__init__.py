"""Wrong kernels with what must be found in each, and right kernels near them, as a user would write both."""

from tests.simulator.catalogue import (
    atomics,
    barriers,
    bounds,
    functions,
    grids,
    layouts,
    reductions,
    scans,
    sorting,
    tiles,
    uninitialised,
    waiting,
    warps,
)
from tests.simulator.catalogue.case import CASES

__all__ = [
    "CASES",
    "atomics",
    "barriers",
    "bounds",
    "functions",
    "grids",
    "layouts",
    "reductions",
    "scans",
    "sorting",
    "tiles",
    "uninitialised",
    "waiting",
    "warps",
]
