"""``extern __shared__ T name[];`` in sources that g++ compiles.

All such arrays are a block's dynamic shared memory, so all get the symbol of one array: ``extern_shared`` of
``<trifold/launch.cuh>``. The line is changed in a copy of the source, before g++ reads it; line numbers stay.
"""

from __future__ import annotations

import re

SYMBOL = "trifold_extern_shared"
# launch.cuh defines the array where this is defined.
DEFINITION = "TRIFOLD_EXTERN_SHARED"

_DECLARATION = re.compile(
    r"(?P<array>\b(?:extern\b[^;{}\[]*?__shared__|__shared__\b[^;{}\[]*?\bextern)\b[^;{}\[]*\[\s*\])(?P<end>\s*;)"
)


def has_any(text: str) -> bool:
    """Whether the source has such an array."""
    return _DECLARATION.search(text) is not None


def with_symbols(text: str) -> str:
    """The source, in which each such array has the common symbol."""
    return _DECLARATION.sub(rf'\g<array> __asm__("{SYMBOL}")\g<end>', text)
