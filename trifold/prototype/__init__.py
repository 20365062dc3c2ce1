"""The API for a prototype (``prototypes/<op>.py``) in addition to torch and Numba: checks, layouts and launches."""

from trifold.port.layout import elementwise_output, row_output
from trifold.prototype.arguments import check_alike, check_floating
from trifold.prototype.launch import (
    ELEMENTS_PER_THREAD,
    THREADS_PER_BLOCK,
    Output,
    launch,
    launch_elementwise,
    launch_rows,
    output,
    threads_for,
)
from trifold.prototype.layout import flat, rows
from trifold.prototype.normals import normals

__all__ = [
    "ELEMENTS_PER_THREAD",
    "THREADS_PER_BLOCK",
    "Output",
    "check_alike",
    "check_floating",
    "elementwise_output",
    "flat",
    "launch",
    "launch_elementwise",
    "launch_rows",
    "normals",
    "output",
    "row_output",
    "rows",
    "threads_for",
]
