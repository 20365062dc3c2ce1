"""A CUDA thread's coordinates in a launch, as text."""

from __future__ import annotations

import re
from typing import TypeAlias

Coordinates: TypeAlias = tuple[int, int, int]
Place: TypeAlias = tuple[Coordinates, Coordinates]  # a CUDA thread: its index in the block, and the block's index


def parsed(text: str) -> Coordinates | None:
    """The coordinates written as ``3``, ``3,0`` or ``(3, 0, 0)``; None for other text.

    >>> parsed("3,1")
    (3, 1, 0)
    """
    match = re.fullmatch(r"(\d+)(?:,(\d+))?(?:,(\d+))?", text.replace(" ", "").removeprefix("(").removesuffix(")"))
    if match is None:
        return None
    x, y, z = (int(part or 0) for part in match.groups())
    return x, y, z


def described(place: Place) -> str:
    """The coordinates as findings print them.

    >>> described(((3, 0, 0), (1, 0, 0)))
    'thread (3, 0, 0) of block (1, 0, 0)'
    """
    return f"thread {place[0]} of block {place[1]}"
