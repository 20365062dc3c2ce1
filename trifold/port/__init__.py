"""The API for a port's Python file (``ports/<op>.py``). Graduation copies this package into the wheel unchanged."""

from .layout import elementwise_output, row_output
from .random import philox_state
from .schema import Schema
from .transforms import may_need_gradient
from .wiring import Library, Operators, wire

__all__ = [
    "Library",
    "Operators",
    "Schema",
    "elementwise_output",
    "may_need_gradient",
    "philox_state",
    "row_output",
    "wire",
]
