"""What a port's Python file (``ports/<op>.py``) imports. Graduation ships this package inside the wheel."""

from trifold.port.wiring import Library, Operators, Schema, wire

__all__ = ["Library", "Operators", "Schema", "wire"]
