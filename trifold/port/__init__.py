"""What a port's Python file (``ports/<op>.py``) imports. Graduation ships this package inside the wheel, as it is."""

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
