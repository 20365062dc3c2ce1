"""A CUDA thread's place in a launch, as people write it."""

from __future__ import annotations

import re
from typing import TypeAlias

Coordinates: TypeAlias = tuple[int, int, int]
Place: TypeAlias = tuple[Coordinates, Coordinates]  # a CUDA thread: its index in the block, and the block's


def parsed(text: str) -> Coordinates | None:
    """What ``3``, ``3,0`` or ``(3, 0, 0)`` stands for; None for other text.

    >>> parsed("3,1")
    (3, 1, 0)
    """
    match = re.fullmatch(r"(\d+)(?:,(\d+))?(?:,(\d+))?", text.replace(" ", "").removeprefix("(").removesuffix(")"))
    if match is None:
        return None
    x, y, z = (int(part or 0) for part in match.groups())
    return x, y, z


def described(place: Place) -> str:
    """As findings write it.

    >>> described(((3, 0, 0), (1, 0, 0)))
    'thread (3, 0, 0) of block (1, 0, 0)'
    """
    return f"thread {place[0]} of block {place[1]}"
