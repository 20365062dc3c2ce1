"""The cells of the matrix: which implementation, on which device."""

from __future__ import annotations

from typing import Literal

Kind = Literal["prototype", "port"]
Device = Literal["cpu", "cuda"]
