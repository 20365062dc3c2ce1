"""Kernels in which Python and C++ differ, or might: each writes to ``out[i]`` what a construct gives for ``x[i]``,
``y[i]``, of the types in its name's row of :data:`KERNELS`."""

from typing import Any

import numpy as np

from tests.draft import (
    semantics_of_arrays,
    semantics_of_numbers,
    semantics_of_order,
    semantics_of_programs,
    semantics_of_tuples,
)

#: Each kernel by its name, and the types of x and y.
KERNELS: dict[str, tuple[Any, tuple[type, type]]] = {
    kernel.__name__: (kernel, kinds)
    for subject in (
        semantics_of_arrays,
        semantics_of_numbers,
        semantics_of_order,
        semantics_of_programs,
        semantics_of_tuples,
    )
    for kernel, kinds in subject.KERNELS.items()
}


def inputs(x: type, y: type) -> tuple[np.ndarray, np.ndarray]:
    """Of a warp: negative numbers, zeros, and numbers that are not exact."""
    counted = np.arange(32)
    whole = (counted * 37) % 23 - 11
    first: np.ndarray = whole.astype(x) if np.issubdtype(x, np.integer) else (whole * 0.3 + 0.05).astype(x)
    return first, ((counted * 5) % 13 - 4).astype(y)
