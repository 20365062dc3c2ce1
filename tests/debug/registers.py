"""Whether gdb can restore all registers of a program that it has stopped; one older than the processor cannot.

gdb 13 knows no AMX, and a Linux kernel that saves those registers sometimes refuses what it writes.
"""

from __future__ import annotations

import pytest

_REFUSED = "Couldn't write extended state status"


def skip_where_they_cannot_be_written(output: str) -> None:
    """Skip the test whose gdb printed this ``output``, where the kernel refused its registers."""
    if _REFUSED in output:
        pytest.skip("this gdb cannot write all registers of this processor: install a newer one")
