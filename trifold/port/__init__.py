"""The API for a port's Python file (``ports/<op>.py``). Graduation copies this package into the wheel unchanged."""

from .layout import elementwise_output, row_output
from .random import philox_state
from .schema import Schema
from .wiring import Library, Operators, wire

__all__ = [
    "Library",
    "Operators",
    "Schema",
    "elementwise_output",
    "philox_state",
    "row_output",
    "wire",
]
